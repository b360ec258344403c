/**
 * A linear layer of a block that may have a low-rank adapter, or a part of its outputs: `qkv` is the whole
 * projection to queries, keys and values, `fc1` all of the first layer of a feed-forward network, with gates
 * and values where it is gated.
 */
export type LoraTarget = 'qkv' | 'query' | 'key' | 'value' | 'projection' | 'fc1' | 'gate' | 'up' | 'fc2';

/**
 * The low-rank adapters of blocks (LoRA, Hu et al. 2021). Where there are any, they alone are trained.
 */
export interface LoraSpecification {
  /** r */
  readonly rank: number;
  /** The factor of what adapters add: alpha / r, or alpha / sqrt(r). */
  readonly scale: number;
  /** Probability with which a feature of an adapter's input is dropped. */
  readonly dropout: number;
  readonly targets: readonly LoraTarget[];
}
