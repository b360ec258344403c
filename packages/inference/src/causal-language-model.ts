/** Keys and values that a model keeps of several sequences. */
export interface KeyValueCache {
  readonly batchSize: number;
  /** The maximum number of positions of a sequence. */
  readonly capacity: number;
  /**
   * The number of positions that the cache holds of each sequence; `generate` sets it to 0 to begin anew in
   * the slot.
   */
  readonly lengths: number[];
  /**
   * Copies all positions of the sequence in slot `from` to slot `to`, whose length is then the same, so that
   * `generate` computes equal prompts once. Without this function it computes each of them.
   */
  copySequence?(slots: { readonly from: number; readonly to: number }): void;
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
  /** The maximum number of tokens that the model sees at once. */
  readonly maximumContext: number;
  /** Makes empty caches, which the caller disposes of; `capacity` is at most `maximumContext`. */
  newCache(options: { readonly batchSize: number; readonly capacity: number }): Cache;
  /**
   * Appends tokens to sequences, each slot at most once and by at least one token.
   *
   * @returns float32 [sequences, vocabularySize]: logits of the next token of each sequence, in the order of
   *   `sequences`
   */
  forward(call: { readonly cache: Cache; readonly sequences: readonly SequenceTokens[] }): Float32Array;
  /**
   * Computes minus the natural logarithm of the probability of each label given the tokens so far. `tokens`
   * and `labels` are [batchSize, length], row by row, with length at most `maximumContext`.
   *
   * @returns float32 [batchSize, length]
   */
  tokenLosses(call: {
    readonly tokens: Int32Array;
    readonly labels: Int32Array;
    readonly batchSize: number;
  }): Float32Array;
}
