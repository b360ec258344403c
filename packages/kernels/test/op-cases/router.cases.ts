import { type RouterScoreFunction, routerBackward, routerForward } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase, TensorSpec } from './op-case.js';

// T rows, E experts, k slots
interface Sizes {
  readonly rows: number;
  readonly experts: number;
  readonly topK: number;
}

interface Routing {
  readonly scoreFunction: RouterScoreFunction;
  readonly preSoftmax?: boolean;
  readonly scalingFactor?: number;
  readonly numGroups?: number;
  readonly groupTopK?: number;
}

const sizes: readonly Sizes[] = [
  { rows: 5, experts: 8, topK: 2 },
  { rows: 7, experts: 60, topK: 4 },
  { rows: 3, experts: 1, topK: 1 },
  { rows: 4, experts: 5, topK: 1 },
  { rows: 2, experts: 20, topK: 20 },
  { rows: 300, experts: 67, topK: 6 },
  { rows: 0, experts: 8, topK: 2 },
];

const routings: readonly Routing[] = [
  { scoreFunction: 'softmax' },
  { scoreFunction: 'softmax', preSoftmax: true },
  { scoreFunction: 'sigmoid' },
  { scoreFunction: 'sqrtsoftplus', scalingFactor: 2.5 },
];

const tolerance = {
  float32: { absolute: 2e-6, relative: 4e-6 },
  reason: 'exponentials to 2 ulp, in a quotient of two sums of exponentials',
};

const nameCase = ({ rows, experts, topK }: Sizes, { scoreFunction, ...rest }: Routing): string =>
  `${topK} of ${experts} experts, ${rows} rows, ${scoreFunction}${Object.entries(rest)
    .map(([name, value]) => ` ${name} ${value}`)
    .join('')}`;

/** Declares different experts in each row: k consecutive ones of E, from a start that differs by row. */
const differentExperts = ({ rows, experts, topK }: Sizes): TensorSpec => ({
  shape: [rows, topK],
  dtype: 'int32',
  values: (index) => (Math.floor(index / topK) * 3 + (index % topK)) % experts,
});

const forward = (
  size: Sizes,
  routing: Routing,
  { bias, chosen, logits = {} }: { bias?: TensorSpec; chosen?: boolean; logits?: Partial<TensorSpec> } = {},
): OpCase => ({
  name: `router_forward ${nameCase(size, routing)}${bias ? ' bias' : ''}${chosen ? ' chosen' : ''}`,
  operation: 'router_forward',
  tensors: {
    probabilities: { shape: [size.rows, size.topK], output: true },
    experts: { shape: [size.rows, size.topK], dtype: 'int32', output: true },
    logits: { shape: [size.rows, size.experts], scale: 2, ...logits },
    ...(bias ? { expertBias: bias } : {}),
    ...(chosen ? { chosen: differentExperts(size) } : {}),
  },
  run: ({ probabilities, experts, logits, expertBias, chosen }) => {
    const outputs = { probabilities: probabilities!, experts: experts! };
    // omitted outputs have topK slots
    const slots = { topK: size.topK };
    routerForward({ ...outputs, ...slots, logits: logits!, expertBias, chosen, ...routing });
  },
  dtypes: ['float32'],
  tolerance,
});

const backward = (size: Sizes, routing: Routing): OpCase => ({
  name: `router_backward ${nameCase(size, routing)}`,
  operation: 'router_backward',
  tensors: {
    logitsGradient: { shape: [size.rows, size.experts], output: true },
    probabilitiesGradient: { shape: [size.rows, size.topK] },
    logits: { shape: [size.rows, size.experts], scale: 2 },
    experts: differentExperts(size),
  },
  run: ({ logitsGradient, probabilitiesGradient, logits, experts }) =>
    routerBackward({
      logitsGradient: logitsGradient!,
      probabilitiesGradient: probabilitiesGradient!,
      logits: logits!,
      experts: experts!,
      ...routing,
    }),
  dtypes: ['float32'],
  tolerance,
});

const groupSize: Sizes = { rows: 40, experts: 32, topK: 8 };
const grouped: OpCase[] = [
  { scoreFunction: 'sigmoid', numGroups: 8, groupTopK: 4, scalingFactor: 2.5 } as const,
  { scoreFunction: 'softmax', numGroups: 4, groupTopK: 1 } as const,
  { scoreFunction: 'softmax', preSoftmax: true, numGroups: 8, groupTopK: 3 } as const,
  { scoreFunction: 'sqrtsoftplus', numGroups: 32, groupTopK: 8 } as const,
].flatMap((routing) => [
  forward(groupSize, routing),
  // biases below 0 and larger than scores: groups that are not kept must not count as groups with scores of 0
  forward(groupSize, routing, { bias: { shape: [32], values: (index) => -1 - ((index * 7) % 32) / 64 } }),
]);

/** Logits with many ties, which the lower expert wins, and with infinities. */
const ties: OpCase[] = routings.map((routing) => ({
  ...forward({ rows: 6, experts: 21, topK: 5 }, routing, {
    logits: { values: (index) => [1, -2, 1, 0.5, Number.NEGATIVE_INFINITY, 1, 3][(index * 5) % 7]! },
  }),
  name: `router_forward of ties, ${routing.scoreFunction}${routing.preSoftmax ? ' before' : ''}`,
}));

const extreme: TensorSpec['values'] = (index) => [-1e4, -100, -30, 0, 30, 100, 1e4, 12][index % 8]!;
const extremes: OpCase[] = (['sigmoid', 'sqrtsoftplus'] as const).flatMap((scoreFunction) => {
  const size = { rows: 4, experts: 8, topK: 8 };
  const { tensors, ...rest } = backward(size, { scoreFunction });
  return [
    {
      ...forward(size, { scoreFunction }, { logits: { values: extreme }, chosen: true }),
      name: `router_forward of extreme logits, ${scoreFunction}`,
    },
    {
      ...rest,
      name: `router_backward of extreme logits, ${scoreFunction}`,
      tensors: { ...tensors, logits: { shape: [4, 8], values: extreme } },
    },
  ];
});

const benchmarks: OpCase[] = benchmarkSizes.flatMap(({ preset, sequence, batch }): OpCase[] => {
  const size = { rows: sequence * batch, experts: 64, topK: 8 };
  const routing = { scoreFunction: 'sigmoid', scalingFactor: 2.5 } as const;
  return [forward(size, routing), backward(size, routing)].map(({ name, ...rest }) => ({
    ...rest,
    name: `${name} ${preset}`,
    benchmark: {},
  }));
});

export const cases: readonly OpCase[] = [
  ...sizes.flatMap((size) => routings.map((routing) => forward(size, routing))),
  ...routings.map((routing) =>
    forward(sizes[1]!, routing, { bias: { shape: [60], dtype: 'float32', scale: 0.5 } }),
  ),
  ...routings.map((routing) => forward(sizes[1]!, routing, { chosen: true })),
  ...grouped,
  ...ties,
  ...sizes.flatMap((size) => routings.map((routing) => backward(size, routing))),
  ...extremes,
  ...benchmarks,
];

export const gradientCases: readonly GradientCase[] = [1, 3].flatMap((topK) =>
  routings.map((routing): GradientCase => {
    const size = { rows: 4, experts: 7, topK };
    return {
      name: `router ${nameCase(size, routing)}`,
      tensors: {
        logits: { shape: [4, 7] },
        experts: { shape: [4, topK], dtype: 'int32', output: true },
      },
      differentiable: ['logits'],
      outputShape: [4, topK],
      forward: ({ logits, experts }, output) =>
        routerForward({ probabilities: output, experts: experts!, logits: logits!, ...routing }),
      backward: ({ logits, experts }, outputGradient, gradients) =>
        routerBackward({
          logitsGradient: gradients.logits!,
          probabilitiesGradient: outputGradient,
          logits: logits!,
          experts: experts!,
          ...routing,
        }),
    };
  }),
);
