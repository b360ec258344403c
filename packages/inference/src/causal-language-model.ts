/** The keys and values of several sequences that a model has computed. */
export interface KeyValueCache {
  readonly batchSize: number;
  /** The maximum number of positions of a sequence. */
  readonly capacity: number;
  /**
   * For each sequence, the number of positions in the cache. `generate` sets it to 0 to start a new sequence
   * in a slot.
   */
  readonly lengths: number[];
  /**
   * Copies all positions of the sequence in slot `from` to slot `to`, which then has the same length. With
   * this function, `generate` computes equal prompts only once.
   */
  copySequence?(slots: { readonly from: number; readonly to: number }): void;
  dispose(): void;
}

/** New tokens of one of the sequences in a cache. */
export interface SequenceTokens {
  /** The index of the sequence in the cache. */
  readonly slot: number;
  readonly tokens: Int32Array;
}

/**
 * The interface of a model for generation and scoring. Sequences in a cache may have different lengths,
 * without padding or a mask. `GptLanguageModel` of @mtl/models implements this interface.
 */
export interface CausalLanguageModel<Cache extends KeyValueCache = KeyValueCache> {
  readonly vocabularySize: number;
  /** The maximum number of tokens in the model's context. */
  readonly maximumContext: number;
  /** Makes an empty cache, which the caller must dispose of. `capacity` is at most `maximumContext`. */
  newCache(options: { readonly batchSize: number; readonly capacity: number }): Cache;
  /**
   * Appends tokens to sequences. Each slot occurs at most once, with at least one token.
   *
   * @returns float32 [sequences, vocabularySize]: logits of the next token of each sequence, in the order of
   *   `sequences`
   */
  forward(call: { readonly cache: Cache; readonly sequences: readonly SequenceTokens[] }): Float32Array;
  /**
   * Computes the negative natural logarithm of the probability of each label, given the tokens up to its
   * position. `tokens` and `labels` are [batchSize, length], row-major, with length at most `maximumContext`.
   *
   * @returns float32 [batchSize, length]
   */
  tokenLosses(call: {
    readonly tokens: Int32Array;
    readonly labels: Int32Array;
    readonly batchSize: number;
  }): Float32Array;
}
