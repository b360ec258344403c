/** The sizes that the cost of a transformer depends on. */
export interface ModelFlopsShape {
  /** B: samples of one iteration. */
  readonly batchSize: number;
  /** S: tokens per sample. */
  readonly sequenceLength: number;
  /** L */
  readonly numLayers: number;
  /** H */
  readonly hiddenSize: number;
  /** F: width of the feed-forward layer, 4H in GPT-2. */
  readonly ffnHiddenSize: number;
  /** V: rows of the output layer, padding included, since the matmuls compute them. */
  readonly vocabSize: number;
  /** Share of the tokens whose logits are computed: that of masked tokens for a BERT. Default 1. */
  readonly headShare?: number;
  /**
   * `full` counts all S x S attention scores, as Narayanan 2021 does; `causal` counts the half that a causal
   * mask leaves, as recent Megatron-LM does. Values of the two kinds cannot be compared.
   */
  readonly attention?: 'full' | 'causal';
}

/**
 * Floating-point operations of one iteration, forward and backward, recomputation not counted (Narayanan
 * 2021, appendix; Korthikanti 2022, appendix A). Only matmuls count. Per token and layer, forward:
 * 8 H^2 for query, key, value and output projections, 4 H F for the feed-forward layer, 4 S H for attention;
 * 2 H V for the logits; backward costs twice the forward pass. Together
 *
 *   B S (L (24 H^2 + 12 H F + 12 S H) + 6 H V),
 *
 * which for F = 4H is the papers' 72 B S L H^2 (1 + S/6H + V/12LH). Causal attention halves 12 S H.
 */
export function modelFlops(shape: ModelFlopsShape): number {
  const {
    batchSize: B,
    sequenceLength: S,
    numLayers: L,
    hiddenSize: H,
    ffnHiddenSize: F,
    vocabSize: V,
  } = shape;
  const attention = shape.attention === 'causal' ? 6 * S * H : 12 * S * H;
  const head = (shape.headShare ?? 1) * 6 * H * V;
  return B * S * (L * (24 * H * H + 12 * H * F + attention) + head);
}

/**
 * The formula behind `modelFlops` as one line of text, for summaries: readers of a TFLOP/s value need it.
 */
export function modelFlopsFormula(
  shape: Pick<ModelFlopsShape, 'hiddenSize' | 'ffnHiddenSize' | 'attention' | 'headShare'>,
): string {
  const isCausal = shape.attention === 'causal';
  const counted = isCausal ? 'attention counted by half for the causal mask' : 'attention counted in full';
  const V = shape.headShare === undefined ? 'V' : `${shape.headShare} V`;
  const formula =
    shape.ffnHiddenSize === 4 * shape.hiddenSize
      ? `72 B S L H^2 (1 + S/${isCausal ? 12 : 6}H + ${V}/12LH)`
      : `B S (L (24 H^2 + 12 H F + ${isCausal ? 6 : 12} S H) + 6 H ${V})`;
  // a model that predicts some of the tokens has rows of all lengths
  const padding = shape.headShare === undefined ? '' : 'padding counted, ';
  return `${formula} per iteration, ${counted}, ${padding}recomputation not counted`;
}
