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
  /** P: features of all queries, heads times head size. Default: H. */
  readonly attentionSize?: number;
  /** K: features of all keys, and of all values; less than P where heads share them. Default: P. */
  readonly keyValueSize?: number;
  /** Whether the feed-forward layer has a gate, three matrices instead of two (SwiGLU). Default: no. */
  readonly isGated?: boolean;
  /**
   * A: parameters of the low-rank adapters of all layers, which alone are trained. Default: the model has
   * none, and every weight is trained.
   */
  readonly numAdapterParameters?: number | undefined;
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
 * 4 H (P + K) for query, key, value and output projections, 4 H F for the feed-forward layer (6 H F with a
 * gate), 4 S P for attention; 2 H V for the logits; backward costs twice the forward pass. Together
 *
 *   B S (L (12 H (P + K) + 12 H F + 12 S P) + 6 H V),
 *
 * which for P = K = H and F = 4H is the papers' 72 B S L H^2 (1 + S/6H + V/12LH). Causal attention halves
 * 12 S P.
 *
 * Where adapters are trained, weights have no gradients: their matmuls cost twice the forward pass in place
 * of three times, those of adapters 6 A per token:
 *
 *   B S (L (8 H (P + K) + 8 H F + 12 S P) + 4 H V + 6 A).
 *
 * That counts the gradients of all inputs, also of the first layer's, which nothing needs then.
 */
export function modelFlops(shape: ModelFlopsShape): number {
  const {
    batchSize: B,
    sequenceLength: S,
    numLayers: L,
    hiddenSize: H,
    ffnHiddenSize: F,
    vocabSize: V,
    attentionSize: P = H,
    keyValueSize: K = P,
    isGated = false,
    numAdapterParameters: A = 0,
  } = shape;
  const perWeight = flopsPerWeight(shape);
  const attention = shape.attention === 'causal' ? 6 * S * P : 12 * S * P;
  const feedForward = perWeight * (isGated ? 3 : 2) * H * F;
  const head = (shape.headShare ?? 1) * perWeight * H * V;
  return B * S * (L * (2 * perWeight * H * (P + K) + feedForward + attention) + head + 6 * A);
}

/** Of a token: two each for the forward pass and for the gradients of input and weight, if it is trained. */
const flopsPerWeight = ({ numAdapterParameters }: Pick<ModelFlopsShape, 'numAdapterParameters'>): 4 | 6 =>
  numAdapterParameters === undefined ? 6 : 4;

/**
 * The formula behind `modelFlops` as one line of text, for summaries: readers of a TFLOP/s value need it.
 */
export function modelFlopsFormula(
  shape: Omit<ModelFlopsShape, 'batchSize' | 'sequenceLength' | 'numLayers' | 'vocabSize'>,
): string {
  const isCausal = shape.attention === 'causal';
  const counted = isCausal ? 'attention counted by half for the causal mask' : 'attention counted in full';
  const V = shape.headShare === undefined ? 'V' : `${shape.headShare} V`;
  const { hiddenSize: H, ffnHiddenSize: F, attentionSize: P = H, keyValueSize: K = P, isGated } = shape;
  const { numAdapterParameters: A } = shape;
  const isSquare = P === H && K === H;
  const perWeight = flopsPerWeight(shape);
  const projections = isSquare ? `${4 * perWeight} H^2` : `${2 * perWeight} H (${P} + ${K})`;
  const feedForward = `${(isGated ? 3 : 2) * perWeight} H F`;
  const scores = `${isCausal ? 6 : 12} S ${P === H ? 'H' : P}`;
  const adapters = A === undefined ? '' : ` + 6 x ${A}`;
  const formula =
    isSquare && F === 4 * H && !isGated && A === undefined
      ? `72 B S L H^2 (1 + S/${isCausal ? 12 : 6}H + ${V}/12LH)`
      : `B S (L (${projections} + ${feedForward} + ${scores}) + ${perWeight} H ${V}${adapters})`;
  // a model that predicts some of the tokens has rows of all lengths
  const padding = shape.headShare === undefined ? '' : 'padding counted, ';
  const trained = A === undefined ? '' : 'gradients of adapters counted and not of weights, ';
  return `${formula} per iteration, ${counted}, ${padding}${trained}recomputation not counted`;
}
