/**
 * The sizes that determine the FLOPs of a transformer. The model's blocks compute their own contributions
 * (see `MatmulCost` in @mtl/models).
 */
export interface ModelFlopsShape {
  /** B: the number of samples in an iteration. */
  readonly batchSize: number;
  /** S: tokens per sample. */
  readonly sequenceLength: number;
  /** W: the number of weight elements, over all layers, by which each token is multiplied. */
  readonly weights: number;
  /**
   * The number of all layers' weight elements in a mixture of experts, including experts that a token does
   * not use. Default: every token uses all experts.
   */
  readonly heldWeights?: number | undefined;
  /** P: the number of query features over all layers, which is the number of heads times the head size. */
  readonly attentionFeatures: number;
  /**
   * `V * H`: the number of elements in the output layer, including padding, because the matmuls also compute
   * the padding. Default: none.
   */
  readonly headWeights?: number;
  /**
   * The fraction of the tokens whose logits are computed. For a BERT, it is the fraction of masked tokens.
   * Default: 1.
   */
  readonly headShare?: number;
  /**
   * A: the number of parameters of low-rank adapters, over all layers, by which each token is multiplied. If
   * this number is given, only the adapters are trained. Default: the model has no adapters, and every weight
   * is trained.
   */
  readonly numAdapterParameters?: number | undefined;
  /**
   * `full` counts all `S * S` attention scores, as Narayanan 2021 does. `causal` counts only the half that a
   * causal mask does not hide, as recent versions of Megatron-LM do. Results of the two kinds cannot be
   * compared.
   */
  readonly attention?: 'full' | 'causal';
}

/**
 * Returns the number of floating-point operations of one iteration, forward and backward, without
 * recomputation (Narayanan 2021, appendix; Korthikanti 2022, appendix A). Only matmuls count. In the forward
 * pass, each weight costs two operations per token. Each pair of a query feature and an attended position
 * costs four. Backward costs twice as much as forward. The sum is
 *
 *   B S (6 W + 12 S P + 6 V H).
 *
 * For the blocks of GPT-2, this sum equals the papers' 72 B S L H^2 (1 + S/6H + V/12LH). Causal attention
 * halves the term 12 S P.
 *
 * If only adapters are trained, weights have no gradients. The matmuls of weights then cost twice the forward
 * pass instead of three times, and the matmuls of adapters cost 6 A per token. This count includes the
 * gradients of all inputs, although the first layer's input gradient is not needed in this case.
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
 * Returns the FLOPs per token and weight. The forward pass, the gradient of the input, and the gradient of a
 * trained weight take two FLOPs each.
 */
const flopsPerWeight = ({ numAdapterParameters }: ModelFlopsShape): 4 | 6 =>
  numAdapterParameters === undefined ? 6 : 4;

/** Returns the FLOPs per query feature and pair of positions, forward and backward. */
const flopsPerScore = ({ attention }: ModelFlopsShape): 6 | 12 => (attention === 'causal' ? 6 : 12);

/**
 * Returns a line for summaries that describes which operations `modelFlops` counts. A TFLOP/s value has no
 * meaning without this description.
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
    // BERT computes logits for some tokens only, and its batches contain padding
    ...(headShare === undefined ? [] : ['padding counted']),
    ...(numAdapterParameters === undefined ? [] : ['gradients of adapters counted and not of weights']),
    'recomputation not counted',
  ].join(', ');
}
