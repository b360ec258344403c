/**
 * What the blocks of a model may have otherwise than GPT-2's. Absent: as in GPT-2.
 */
export interface BlockVariants {
  /** D: features of an attention head. Absent: hidden size / heads. */
  readonly kvChannels?: number | undefined;
  /** Whether heads share keys and values in `numQueryGroups` groups. */
  readonly groupQueryAttention?: boolean | undefined;
  /** G, with `groupQueryAttention`. */
  readonly numQueryGroups?: number | undefined;
  /** Whether linear layers have biases. */
  readonly addBiasLinear?: boolean | undefined;
  /**
   * Whether the projections to queries, keys and values have biases even if other linear layers have none.
   */
  readonly addQkvBias?: boolean | undefined;
  /** Absent: LayerNorm. */
  readonly normalization?: 'LayerNorm' | 'RMSNorm' | undefined;
  /** Whether feed-forward networks are gated: three matrices, with SiLU of the gate. */
  readonly swiglu?: boolean | undefined;
  /** Whether the activation of feed-forward networks is squared ReLU. */
  readonly squaredRelu?: boolean | undefined;
  /** Whether queries and keys are normalized over the features of their head (with RMSNorm). */
  readonly qkLayernorm?: boolean | undefined;
  /**
   * Whether with `qkLayernorm` the queries of all heads are normalized together, and the keys (OLMoE). With
   * RMSNorm.
   */
  readonly qkNormWholeWidth?: boolean | undefined;
  /** `L,0`: a query sees its own position and L before it. Absent: all. */
  readonly windowSize?: string | undefined;
}
