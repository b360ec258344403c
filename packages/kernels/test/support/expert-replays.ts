import {
  combineRows,
  type ExpertActivationOptions,
  expertActivationBackward,
  expertActivationForward,
  groupByExpert,
  groupedMatmul,
  groupedSumRows,
  groupedWeightGradient,
  permuteRows,
  type RouterForwardOptions,
  routerBackward,
  routerForward,
  Tensor,
} from '../../src/index.js';

type Inputs = Readonly<Record<string, Tensor>>;
interface Attributes {
  readonly attributes: Readonly<Record<string, unknown>>;
}

/** The operations of mixture-of-experts layers, on the inputs of a fixture. */
export const expertReplays = {
  router: ({ logits, bias, dp }: Inputs, { attributes }: Attributes): Record<string, Tensor> => {
    const options = attributes as unknown as Pick<RouterForwardOptions, 'scoreFunction' | 'numGroups'>;
    const { probabilities: p, experts } = routerForward({
      logits: logits!,
      expertBias: bias,
      topK: dp!.dim(1),
      ...options,
    });
    const { scoreFunction, preSoftmax, scalingFactor } = attributes as unknown as RouterForwardOptions;
    const scores = { scoreFunction, preSoftmax, scalingFactor };
    const dlogits = routerBackward({ probabilitiesGradient: dp!, logits: logits!, experts, ...scores });
    return { p, experts, dlogits };
  },
  grouped_matmul: ({ x, w, dy, offsets }: Inputs): Record<string, Tensor> => {
    const of = { offsets: offsets! };
    return {
      y: groupedMatmul({ input: x!, weights: w!, transposeWeights: true, ...of }),
      dx: groupedMatmul({ input: dy!, weights: w!, ...of }),
      dw: groupedWeightGradient({ outputGradient: dy!, input: x!, ...of }),
    };
  },
  expert_activation: (
    { x, bias, p, dy, offsets }: Inputs,
    { attributes }: Attributes,
  ): Record<string, Tensor> => {
    const kind = attributes as unknown as ExpertActivationOptions;
    const operands = { input: x!, bias, probabilities: p, offsets: offsets!, ...kind };
    const y = expertActivationForward(operands);
    const dp = Tensor.empty(p!);
    const dx = expertActivationBackward({ probabilitiesGradient: dp, outputGradient: dy!, ...operands });
    // the terms of the bias gradient are rounded: they are the input's gradient in its dtype
    return { y, dx, dp, dbias: groupedSumRows({ input: dx, offsets: offsets! }) };
  },
  permutation: ({ x, experts, dy }: Inputs, { attributes }: Attributes): Record<string, Tensor> => {
    const { positions, sources } = groupByExpert({
      experts: experts!,
      numExperts: attributes.numExperts as number,
    });
    const topK = experts!.dim(1);
    const rows = permuteRows({ input: x!, sources, topK });
    const y = combineRows({ rows, positions });
    const drows = permuteRows({ input: dy!, sources, topK });
    return { rows, y, dx: combineRows({ rows: drows, positions }) };
  },
};
