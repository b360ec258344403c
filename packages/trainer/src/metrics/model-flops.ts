/**
 * The sizes that determine the FLOPs of a transformer: its blocks know their part of it (`MatmulCost` of
 * @mtl/models).
 */
export interface ModelFlopsShape {
  /** B: samples of one iteration. */
  readonly batchSize: number;
  /** S: tokens per sample. */
  readonly sequenceLength: number;
  /** W: elements of the weights of all layers that a token is multiplied with. */
  readonly weights: number;
  /**
   * Elements of the weights of all layers of a mixture of experts, experts that a token does not use
   * included. Default: every token uses all experts.
   */
  readonly heldWeights?: number | undefined;
  /** P: features of all queries of all layers, heads times head size. */
  readonly attentionFeatures: number;
  /** V H: elements of the output layer, padding included, since the matmuls compute it. Default: none. */
  readonly headWeights?: number;
  /** Share of the tokens whose logits are computed; for a BERT, the share of masked tokens. Default 1. */
  readonly headShare?: number;
  /**
   * A: parameters of the low-rank adapters of all layers that a token is multiplied with; only adapters are
   * trained then. Default: the model has no adapters, and every weight is trained.
   */
  readonly numAdapterParameters?: number | undefined;
  /**
   * `full` counts all S x S attention scores, as Narayanan 2021 does; `causal` counts the half that a causal
   * mask leaves, as recent Megatron-LM does. Values of the two kinds cannot be compared.
   */
  readonly attention?: 'full' | 'causal';
}

/**
 * Floating-point operations of one iteration, forward and backward, recomputation not counted (Narayanan
 * 2021, appendix; Korthikanti 2022, appendix A). Only matmuls count. A token takes two for each weight, and
 * four for each feature of its queries and each position that it attends to; backward costs twice the forward
 * pass. Together
 *
 *   B S (6 W + 12 S P + 6 V H),
 *
 * which for the blocks of GPT-2 is the papers' 72 B S L H^2 (1 + S/6H + V/12LH). Causal attention halves 12 S
 * P.
 *
 * If only adapters are trained, weights have no gradients: the matmuls of weights cost twice the forward pass
 * instead of three times, and the matmuls of adapters cost 6 A per token. This count includes the gradients
 * of all inputs, even of the first layer's, which are not needed then.
 */
export function modelFlops(shape: ModelFlopsShape): number {
  const { batchSize, sequenceLength, headWeights = 0, headShare = 1, numAdapterParameters = 0 } = shape;
  const perWeight = flopsPerWeight(shape);
  const ofAttention = flopsPerScore(shape) * sequenceLength * shape.attentionFeatures;
  const ofHead = headShare * perWeight * headWeights;
  const perToken = perWeight * shape.weights + ofAttention + ofHead + 6 * numAdapterParameters;
  return batchSize * sequenceLength * perToken;
}

/**
 * Returns the FLOPs of a token and a weight: two each for the forward pass and for the gradients of input and
 * weight, if the weight is trained.
 */
const flopsPerWeight = ({ numAdapterParameters }: ModelFlopsShape): 4 | 6 =>
  numAdapterParameters === undefined ? 6 : 4;

/** Returns the FLOPs of a query feature and a pair of positions, forward and backward. */
const flopsPerScore = ({ attention }: ModelFlopsShape): 6 | 12 => (attention === 'causal' ? 6 : 12);

/**
 * Describes the operations that `modelFlops` counts, as one line of text, for summaries: readers of a TFLOP/s
 * value need it.
 */
export function modelFlopsText(shape: ModelFlopsShape): string {
  const { headWeights = 0, headShare, heldWeights, numAdapterParameters } = shape;
  const isCausal = shape.attention === 'causal';
  const perWeight = flopsPerWeight(shape);
  const terms = [
    `${perWeight} x ${shape.weights} weights of layers${heldWeights === undefined ? '' : ' that a token uses'}`,
    `${flopsPerScore(shape)} S x ${shape.attentionFeatures} features of queries`,
    ...(headWeights === 0
      ? []
      : [`${perWeight} x ${headShare === undefined ? '' : `${headShare} x `}${headWeights} of the head`]),
    ...(numAdapterParameters === undefined ? [] : [`6 x ${numAdapterParameters} of adapters`]),
  ];
  return [
    `B S (${terms.join(' + ')}) per iteration`,
    isCausal ? 'attention counted by half for the causal mask' : 'attention counted in full',
    ...(heldWeights === undefined
      ? []
      : [`of the ${heldWeights} weights of layers, experts that a token does not use are not counted`]),
    // a model that predicts some of the tokens has rows of all lengths
    ...(headShare === undefined ? [] : ['padding counted']),
    ...(numAdapterParameters === undefined ? [] : ['gradients of adapters counted and not of weights']),
    'recomputation not counted',
  ].join(', ');
}
