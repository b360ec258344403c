/**
 * A linear layer of a block that may have a low-rank adapter, or a part of its outputs: `qkv` is the whole
 * projection to queries, keys and values, `fc1` all of the first layer of a feed-forward network, with gates
 * and values where it is gated. `expertsFc1` and `expertsFc2` are the layers of all routed experts, each of
 * which has an adapter of its own, `sharedFc1` to `sharedFc2` those of shared experts.
 */
export type LoraTarget =
  | ('qkv' | 'query' | 'key' | 'value' | 'projection')
  | FeedForwardTarget
  | ('expertsFc1' | 'expertsFc2')
  | `shared${Capitalize<FeedForwardTarget>}`;

/** A linear layer of a feed-forward network that every token uses, or a part of its outputs. */
export type FeedForwardTarget = 'fc1' | 'gate' | 'up' | 'fc2';

/**
 * The low-rank adapters of blocks (LoRA, Hu et al. 2021). Where there are any, they alone are trained.
 */
export interface LoraSpecification {
  /** r */
  readonly rank: number;
  /** The factor of what adapters add: alpha / r, or alpha / sqrt(r). */
  readonly scale: number;
  /**
   * Probability with which a feature of an adapter's input is dropped; 0 where routed experts have adapters.
   */
  readonly dropout: number;
  readonly targets: readonly LoraTarget[];
}
