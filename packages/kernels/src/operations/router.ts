import { UsageError } from '@mtl/errors';
import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/**
 * How a router makes scores of its logits: `sqrtsoftplus` is the square root of ln(1 + e^x).
 */
export type RouterScoreFunction = 'softmax' | 'sigmoid' | 'sqrtsoftplus';

const scoreFunctions: readonly RouterScoreFunction[] = ['softmax', 'sigmoid', 'sqrtsoftplus'];

/** The number of a score function in native code. */
export function scoreFunctionNumber(scoreFunction: RouterScoreFunction): number {
  const number = scoreFunctions.indexOf(scoreFunction);
  if (number >= 0) return number;
  throw new UsageError('MTL_ARGUMENT', `unknown score function ${String(scoreFunction)}`, {
    expected: scoreFunctions.join(', '),
  });
}

export interface RouterScoreOptions {
  readonly scoreFunction: RouterScoreFunction;
  /**
   * Softmax over all experts before the selection: the probabilities of a row do not sum to 1. Default: over
   * the selected ones.
   */
  readonly preSoftmax?: boolean | undefined;
  /** The factor of all probabilities. Default 1. */
  readonly scalingFactor?: number | undefined;
}

export interface RouterForwardOptions extends RouterScoreOptions {
  /** `[T, k]`, of the dtype of `logits` */
  readonly probabilities: Tensor;
  /** `[T, k]` int32: in descending order of the selection score, of equal ones the lower expert first */
  readonly experts: Tensor;
  /** `[..., E]` float32 (float64 on device `reference`), T rows */
  readonly logits: Tensor;
  /** [E] float32: added to the scores that select, not to probabilities. */
  readonly expertBias?: Tensor | undefined;
  /** `[T, k]` int32: these experts in place of a selection. */
  readonly chosen?: Tensor | undefined;
  /** Groups of as many experts each, of which a row uses `groupTopK`. Default 0: none. */
  readonly numGroups?: number | undefined;
  readonly groupTopK?: number | undefined;
}

/**
 * The k experts of each row and their weights. Softmax, or scores divided by their sum where k is more than 1
 * (DeepSeek-AI 2024, arXiv 2412.19437). Groups are ranked by the sums of their k / groupTopK largest scores.
 *
 * @param options `topK` where the outputs are left out: k
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit, `MTL_INDEX`
 *   for a chosen expert that is none
 */
export const routerForward = returningOperation<
  RouterForwardOptions,
  'probabilities' | 'experts',
  { readonly topK: number }
>(
  'routerForward',
  {
    probabilities: ({ logits, topK }) => like(logits, [logits.size / logits.dim(-1), topK]),
    experts: ({ logits, topK }) => ({
      shape: [logits.size / logits.dim(-1), topK],
      dtype: 'int32',
      device: logits.device,
    }),
  },
  (options) => {
    const { probabilities, experts, logits, expertBias, chosen } = options;
    const { preSoftmax = false, scalingFactor = 1, numGroups = 0, groupTopK = 0 } = options;
    const scoreFunction = scoreFunctionNumber(options.scoreFunction);
    const tensors = { probabilities, experts, logits, expertBias, chosen };
    const attributes = { scoreFunction, preSoftmax, scalingFactor, numGroups, groupTopK };
    runOperation('router_forward', { ...tensors, ...attributes });
  },
);

export interface RouterBackwardOptions extends RouterScoreOptions {
  /** `[..., E]` */
  readonly logitsGradient: Tensor;
  /** [T, k] */
  readonly probabilitiesGradient: Tensor;
  /** The operand of the forward call. */
  readonly logits: Tensor;
  /** `[T, k]` int32, the output of the forward call */
  readonly experts: Tensor;
}

/**
 * The gradient of the logits from that of the probabilities; the selection has none.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit, `MTL_INDEX`
 *   for an expert that is none
 */
export const routerBackward = returningOperation<RouterBackwardOptions, 'logitsGradient'>(
  'routerBackward',
  { logitsGradient: ({ logits }) => like(logits) },
  (options) => {
    const { logitsGradient, probabilitiesGradient, logits, experts } = options;
    const { preSoftmax = false, scalingFactor = 1 } = options;
    const scoreFunction = scoreFunctionNumber(options.scoreFunction);
    const tensors = { logitsGradient, probabilitiesGradient, logits, experts };
    runOperation('router_backward', { ...tensors, scoreFunction, preSoftmax, scalingFactor });
  },
);
