import {
  type RouterScoreFunction,
  routerStatisticsBackward,
  routerStatisticsForward,
  Tensor,
} from '../../src/index.js';
import type { GradientCase, OpCase } from './op-case.js';

// T rows, E experts, k slots, N sequences
interface Sizes {
  readonly rows: number;
  readonly experts: number;
  readonly topK: number;
  readonly sequences: number;
}

const sizes: readonly Sizes[] = [
  { rows: 6, experts: 8, topK: 2, sequences: 1 },
  { rows: 10, experts: 5, topK: 1, sequences: 3 },
  { rows: 1200, experts: 67, topK: 6, sequences: 4 },
  { rows: 3, experts: 1, topK: 1, sequences: 2 },
  { rows: 0, experts: 4, topK: 4, sequences: 2 },
];

const scoreFunctions: readonly RouterScoreFunction[] = ['softmax', 'sigmoid', 'sqrtsoftplus'];

const tolerance = {
  float32: { absolute: 4e-6, relative: 4e-6 },
  reason: 'exponentials and logarithms to 2 ulp, in sums of up to 1200 scores in double',
};

interface Options {
  readonly hasWeights?: boolean;
  /** The one gradient that backward gets; default: both. */
  readonly of?: 'scores' | 'squares';
}

const rowWeights = (rows: number) => ({
  rowWeights: {
    shape: [rows],
    dtype: 'float32',
    values: (row: number) => [1, 0.5, 0, 1, 0][row % 5]!,
  } as const,
});

const nameCase = (operation: string, { rows, experts, topK, sequences }: Sizes, rest: string): string =>
  `${operation} ${topK} of ${experts} experts, ${rows} rows of ${sequences} sequences, ${rest}`;

const forward = (size: Sizes, scoreFunction: RouterScoreFunction, { hasWeights }: Options = {}): OpCase => {
  const { rows, experts, topK, sequences } = size;
  return {
    name: nameCase('router_statistics_forward', size, `${scoreFunction}${hasWeights ? ' weights' : ''}`),
    operation: 'router_statistics_forward',
    tensors: {
      counts: { shape: [sequences, experts], output: true },
      scoreSums: { shape: [sequences, experts], output: true },
      squaredLogSumExp: { shape: [sequences], output: true },
      entropy: { shape: [sequences], output: true },
      logits: { shape: [rows, experts], scale: 2 },
      ...(hasWeights ? rowWeights(rows) : {}),
    },
    run: ({ counts, scoreSums, squaredLogSumExp, entropy, logits, rowWeights }) =>
      routerStatisticsForward({
        counts: counts!,
        scoreSums: scoreSums!,
        squaredLogSumExp: squaredLogSumExp!,
        entropy: entropy!,
        logits: logits!,
        rowWeights,
        topK,
        scoreFunction,
        numSequences: sequences,
      }),
    dtypes: ['float32'],
    tolerance,
  };
};

const backward = (
  size: Sizes,
  scoreFunction: RouterScoreFunction,
  { hasWeights, of }: Options = {},
): OpCase => {
  const { rows, experts, sequences } = size;
  const what = `${scoreFunction}${hasWeights ? ' weights' : ''}${of ? ` of ${of}` : ''}`;
  return {
    name: nameCase('router_statistics_backward', size, what),
    operation: 'router_statistics_backward',
    tensors: {
      logitsGradient: { shape: [rows, experts], output: true },
      ...(of === 'squares' ? {} : { scoreGradients: { shape: [sequences, experts] } }),
      ...(of === 'scores' ? {} : { squareGradients: { shape: [sequences] } }),
      logits: { shape: [rows, experts], scale: 2 },
      ...(hasWeights ? rowWeights(rows) : {}),
    },
    run: ({ logitsGradient, scoreGradients, squareGradients, logits, rowWeights }) =>
      routerStatisticsBackward({
        logitsGradient: logitsGradient!,
        scoreGradients,
        squareGradients,
        logits: logits!,
        rowWeights,
        scoreFunction,
        numSequences: sequences,
      }),
    dtypes: ['float32'],
    tolerance,
  };
};

/** Ties, where the lower expert counts, and logits whose exponentials overflow. */
const ties: OpCase[] = scoreFunctions.map((scoreFunction) => {
  const { tensors, ...rest } = forward({ rows: 7, experts: 9, topK: 4, sequences: 1 }, scoreFunction);
  const values = (index: number): number => [1, -2, 1, 100, 0.5, 1, 100][(index * 5) % 7]!;
  return {
    ...rest,
    name: `router_statistics_forward of ties, ${scoreFunction}`,
    tensors: { ...tensors, logits: { shape: [7, 9], values } },
    tolerance: {
      // entropies are sums of terms p (lse - x), squares of 100^2
      float32: { absolute: 1e-5, relative: 4e-6 },
      reason: 'as others, of logits to 100: exponents that are rounded to 2^-17',
    },
  };
});

export const cases: readonly OpCase[] = [
  ...sizes.flatMap((size) => scoreFunctions.map((each) => forward(size, each))),
  ...scoreFunctions.map((each) => forward(sizes[2]!, each, { hasWeights: true })),
  ...ties,
  ...sizes.flatMap((size) => scoreFunctions.map((each) => backward(size, each))),
  ...scoreFunctions.flatMap((each) =>
    (['scores', 'squares'] as const).map((of) => backward(sizes[1]!, each, { of, hasWeights: true })),
  ),
];

const [rows, experts, sequences] = [6, 5, 2];
/** Calls `body` with the outputs of forward that a gradient case does not compare. */
function withOthers(body: (others: Record<'counts' | 'sums' | 'vector' | 'entropy', Tensor>) => void): void {
  const make = (shape: readonly number[]): Tensor =>
    Tensor.empty({ shape, dtype: 'float64', device: 'reference' });
  const others = {
    counts: make([sequences, experts]),
    sums: make([sequences, experts]),
    vector: make([sequences]),
    entropy: make([sequences]),
  };
  body(others);
  for (const tensor of Object.values(others)) tensor.dispose();
}

export const gradientCases: readonly GradientCase[] = scoreFunctions.flatMap((scoreFunction) =>
  (['scores', 'squares'] as const).map((of): GradientCase => {
    const attributes = { scoreFunction, numSequences: sequences };
    return {
      name: `router_statistics ${scoreFunction} of ${of}`,
      tensors: { logits: { shape: [rows, experts] }, ...rowWeights(rows) },
      differentiable: ['logits'],
      outputShape: of === 'scores' ? [sequences, experts] : [sequences],
      forward: ({ logits, rowWeights }, output) =>
        withOthers(({ counts, sums, vector, entropy }) =>
          routerStatisticsForward({
            counts,
            scoreSums: of === 'scores' ? output : sums,
            squaredLogSumExp: of === 'scores' ? vector : output,
            entropy,
            logits: logits!,
            rowWeights,
            topK: 2,
            ...attributes,
          }),
        ),
      backward: ({ logits, rowWeights }, outputGradient, gradients) =>
        routerStatisticsBackward({
          logitsGradient: gradients.logits!,
          ...(of === 'scores' ? { scoreGradients: outputGradient } : { squareGradients: outputGradient }),
          logits: logits!,
          rowWeights,
          ...attributes,
        }),
    };
  }),
);
