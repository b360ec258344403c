/** The keys and values that a model has computed for several sequences. */
export interface KeyValueCache {
  readonly batchSize: number;
  /** The maximum number of positions per sequence. */
  readonly capacity: number;
  /**
   * How many positions of each sequence are in the cache. `generate` sets an entry to 0 to start a new
   * sequence in that slot.
   */
  readonly lengths: number[];
  /**
   * Copies all positions of the sequence in slot `from` to slot `to`, which then has the same length. Enables
   * `generate` to compute equal prompts only once.
   */
  copySequence?(slots: { readonly from: number; readonly to: number }): void;
  dispose(): void;
}

/** New tokens for one of the sequences in a cache. */
export interface SequenceTokens {
  /** The sequence's index in the cache. */
  readonly slot: number;
  readonly tokens: Int32Array;
}

/**
 * The interface that generation and scoring need from a model. The sequences in a cache may have different
 * lengths, without padding or a mask. `GptLanguageModel` of @mtl/models implements this interface.
 */
export interface CausalLanguageModel<Cache extends KeyValueCache = KeyValueCache> {
  readonly vocabularySize: number;
  /** The maximum number of tokens in the model's context. */
  readonly maximumContext: number;
  /**
   * Creates an empty cache, which the caller must dispose of. `capacity` must be at most `maximumContext`.
   */
  newCache(options: { readonly batchSize: number; readonly capacity: number }): Cache;
  /**
   * Appends tokens to sequences. Each slot occurs at most once, with at least one token.
   *
   * @returns float32 [sequences, vocabularySize]: for each sequence, the logits of its next token, in the
   *   order of `sequences`
   */
  forward(call: { readonly cache: Cache; readonly sequences: readonly SequenceTokens[] }): Float32Array;
  /**
   * Computes the negative natural logarithm of each label's probability, given the tokens up to and including
   * the label's position. `tokens` and `labels` are [batchSize, length] in row-major order, and length is at
   * most `maximumContext`.
   *
   * @returns float32 [batchSize, length]
   */
  tokenLosses(call: {
    readonly tokens: Int32Array;
    readonly labels: Int32Array;
    readonly batchSize: number;
  }): Float32Array;
}
