/** What is in a layer, apart from its hidden size and heads. */
export interface Block {
  /**
   * `gpt`: biases, GeLU, learned positions. `llama`: no biases, SwiGLU, rotary positions. Default `gpt`.
   */
  readonly block?: 'gpt' | 'llama';
  /** Heads of keys and values. Default: as many as of queries. */
  readonly numQueryGroups?: number;
  /** F. Default: 4 times the hidden size. */
  readonly ffnHiddenSize?: number;
}

/** Sizes of a layer's matmuls, not split over ranks. */
export interface BlockSizes {
  readonly isLlama: boolean;
  readonly ffn: number;
  /** Outputs of the matmul that makes queries, keys and values. */
  readonly qkv: number;
  /** Keys and values alone. */
  readonly keysAndValues: number;
  /** Outputs of the first matmul of the feed-forward network: gate and up, where there is a gate. */
  readonly fc1: number;
}

export function blockSizes(
  block: Block & { readonly hiddenSize: number; readonly numHeads: number },
): BlockSizes {
  const { hiddenSize, numHeads, numQueryGroups = numHeads, ffnHiddenSize: ffn = 4 * hiddenSize } = block;
  const isLlama = block.block === 'llama';
  const keysAndValues = (2 * numQueryGroups * hiddenSize) / numHeads;
  return { isLlama, ffn, qkv: hiddenSize + keysAndValues, keysAndValues, fc1: isLlama ? 2 * ffn : ffn };
}
