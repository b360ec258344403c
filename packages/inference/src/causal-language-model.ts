/** Keys and values that a model keeps of several sequences. */
export interface KeyValueCache {
  readonly batchSize: number;
  /** Most positions of a sequence. */
  readonly capacity: number;
  /** Positions that each sequence has; `generate` sets one to 0 to begin anew in its slot. */
  readonly lengths: number[];
  dispose(): void;
}

/** New tokens of one of the sequences that a cache holds. */
export interface SequenceTokens {
  /** The number of the sequence in the cache. */
  readonly slot: number;
  readonly tokens: Int32Array;
}

/**
 * The interface that generation and scoring need of a model. Sequences in one cache have lengths of their
 * own: there is no padding and no mask. `GptLanguageModel` of @mtl/models has this shape.
 */
export interface CausalLanguageModel<Cache extends KeyValueCache = KeyValueCache> {
  readonly vocabularySize: number;
  /** Most tokens that the model sees at once. */
  readonly maximumContext: number;
  /** Makes empty caches, the caller's to dispose of; `capacity` at most `maximumContext`. */
  newCache(options: { readonly batchSize: number; readonly capacity: number }): Cache;
  /**
   * Appends tokens to sequences, each slot at most once and by at least one token.
   *
   * @returns float32 [sequences, vocabularySize]: logits of what comes after each, in the order of
   *   `sequences`
   */
  forward(call: { readonly cache: Cache; readonly sequences: readonly SequenceTokens[] }): Float32Array;
  /**
   * Minus the natural logarithm of the probability of each label given the tokens so far. `tokens` and
   * `labels` are [batchSize, length], row by row, with length at most `maximumContext`.
   *
   * @returns float32 [batchSize, length]
   */
  tokenLosses(call: {
    readonly tokens: Int32Array;
    readonly labels: Int32Array;
    readonly batchSize: number;
  }): Float32Array;
}
