import {
  type ExpertActivationOptions,
  expertActivationBackward,
  expertActivationForward,
} from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import { declareOffsets, type Grouping, groupings } from './grouped-offsets.js';
import type { GradientCase, OpCase, TensorSpec } from './op-case.js';

const kinds: readonly ExpertActivationOptions[] = [
  { activation: 'swiglu' },
  { activation: 'swiglu', clamp: 2.5, linearOffset: -0.5 },
  { activation: 'geluTanh' },
  { activation: 'geluErf' },
  { activation: 'squaredRelu' },
  { activation: 'clampedQuickGeglu', clamp: 2, linearOffset: 1 },
];

const isGated = ({ activation }: ExpertActivationOptions): boolean =>
  activation === 'swiglu' || activation === 'clampedQuickGeglu';

const tolerance = {
  float32: { absolute: 1e-5, relative: 6e-6 },
  reason:
    'exponentials to 2 ulp, multiplied by gates and values of up to 10, and sums of 130 of their products',
};

interface Options {
  readonly bias?: boolean;
  readonly probabilities?: boolean;
  /** True to leave out the gradient of the probabilities. */
  readonly inputAlone?: boolean;
}

function declareOperands(
  kind: ExpertActivationOptions,
  { grouping, width, bias, probabilities }: { grouping: Grouping; width: number } & Options,
): Record<string, TensorSpec> {
  const inputs = isGated(kind) ? 2 * width : width;
  return {
    input: { shape: [grouping.rows, inputs], scale: 2 },
    ...(bias ? { bias: { shape: [grouping.ends.length, inputs] } } : {}),
    ...(probabilities
      ? { probabilities: { shape: [grouping.rows], dtype: 'float32', values: 'uniform' } as const }
      : {}),
    offsets: declareOffsets(grouping),
  };
}

const nameCase = (
  kind: ExpertActivationOptions,
  { grouping, width, ...options }: { grouping: Grouping; width: number } & Options,
): string => {
  const { activation, ...rest } = kind;
  const attributes = Object.entries(rest).map(([name, value]) => `${name} ${value}`);
  const given = Object.keys(options).filter((name) => options[name as keyof Options]);
  return [activation, `F ${width}`, ...attributes, ...given, grouping.what].join(' ');
};

type Sizes = { readonly grouping: Grouping; readonly width: number } & Options;

const forward = (kind: ExpertActivationOptions, sizes: Sizes): OpCase => ({
  name: `expert_activation_forward ${nameCase(kind, sizes)}`,
  operation: 'expert_activation_forward',
  tensors: {
    output: { shape: [sizes.grouping.rows, sizes.width], output: true },
    ...declareOperands(kind, sizes),
  },
  run: ({ output, input, bias, probabilities, offsets }) =>
    expertActivationForward({
      output: output!,
      input: input!,
      bias,
      probabilities,
      offsets: offsets!,
      ...kind,
    }),
  tolerance,
});

const backward = (kind: ExpertActivationOptions, sizes: Sizes): OpCase => ({
  name: `expert_activation_backward ${nameCase(kind, sizes)}`,
  operation: 'expert_activation_backward',
  tensors: {
    inputGradient: {
      shape: [sizes.grouping.rows, isGated(kind) ? 2 * sizes.width : sizes.width],
      output: true,
    },
    ...(sizes.probabilities && !sizes.inputAlone
      ? {
          probabilitiesGradient: { shape: [sizes.grouping.rows], dtype: 'float32', output: true } as const,
        }
      : {}),
    outputGradient: { shape: [sizes.grouping.rows, sizes.width] },
    ...declareOperands(kind, sizes),
  },
  run: ({ inputGradient, probabilitiesGradient, outputGradient, input, bias, probabilities, offsets }) =>
    expertActivationBackward({
      inputGradient: inputGradient!,
      probabilitiesGradient,
      outputGradient: outputGradient!,
      input: input!,
      bias,
      probabilities,
      offsets: offsets!,
      ...kind,
    }),
  tolerance: {
    ...tolerance,
    // the sums over a row are float32 in every dtype
    float32: { absolute: 6e-5, relative: 1e-5 },
    bfloat16: { absolute: 1e-3, relative: 2 ** -7 },
    float16: { absolute: 1e-3, relative: 2 ** -9 },
  },
});

/** Gates and values at the clamp, where gradients pass, and just beyond it. */
const atTheClamp: OpCase[] = (['swiglu', 'clampedQuickGeglu'] as const).map((activation) => {
  const grouping = { what: 'at the clamp', rows: 1, ends: [1] };
  const { tensors, ...rest } = backward({ activation, clamp: 2 }, { grouping, width: 8 });
  const values = [2, 2, 2, 2.125, -2, -2.125, 1, 2, 2, -2, 2.125, 1, -2.125, 1, -2, 1.875];
  return { ...rest, tensors: { ...tensors, input: { shape: [1, 16], values } } };
});

/** Gates whose exponentials overflow or vanish. */
const farGates = [-1e30, -1e4, -100, -90, 90, 100, 1e4, 1e10];
const far: OpCase[] = kinds
  .filter(({ clamp }) => clamp === undefined)
  .flatMap((kind) =>
    [forward, backward].map((make) => {
      const grouping = { what: 'far from 0', rows: 1, ends: [1] };
      const { tensors, ...rest } = make(kind, { grouping, width: 8 });
      const values = isGated(kind) ? [...farGates, ...Array(8).fill(1)] : farGates;
      return {
        ...rest,
        tensors: { ...tensors, input: { shape: tensors.input!.shape, values } },
        // float16 ends at 65504
        dtypes: ['float32', 'bfloat16'] as const,
      };
    }),
  );

const benchmarks: OpCase[] = benchmarkSizes.flatMap(({ preset, sequence, batch, hidden }): OpCase[] => {
  const rows = sequence * batch;
  const ends = Array.from({ length: 8 }, (_, index) => (rows * (index + 1)) / 8);
  const sizes = { grouping: { what: preset, rows, ends }, width: hidden, probabilities: true };
  return [forward, backward].map((make) => ({
    ...make({ activation: 'swiglu' }, sizes),
    benchmark: {},
    tolerance: {
      float32: { absolute: 1e-3, relative: 1e-5 },
      bfloat16: { absolute: 1e-3, relative: 2 ** -7 },
      float16: { absolute: 1e-3, relative: 2 ** -9 },
      reason: 'sums of hundreds of cancelling products in float32',
    },
  }));
});

export const cases: readonly OpCase[] = [
  ...[forward, backward].flatMap((make) => [
    ...kinds.flatMap((kind) =>
      [1, 17, 64].map((width) =>
        make(kind, { grouping: groupings[0]!, width, bias: true, probabilities: true }),
      ),
    ),
    ...kinds.map((kind) => make(kind, { grouping: groupings[0]!, width: 5 })),
    ...groupings.map((grouping) => make(kinds[0]!, { grouping, width: 130, probabilities: true })),
    ...kinds.map((kind) => make(kind, { grouping: groupings[1]!, width: 9, bias: true })),
  ]),
  backward(kinds[0]!, { grouping: groupings[0]!, width: 9, probabilities: true, inputAlone: true }),
  ...atTheClamp,
  ...far,
  ...benchmarks,
];

const grouping: Grouping = { what: '', rows: 5, ends: [2, 2, 4] };
export const gradientCases: readonly GradientCase[] = kinds.map((kind) => ({
  name: `expert_activation ${nameCase(kind, { grouping, width: 3 })}`,
  tensors: {
    ...declareOperands(kind, { grouping, width: 3, bias: true }),
    probabilities: { shape: [5] },
  },
  differentiable: ['input', 'probabilities'],
  outputShape: [5, 3],
  forward: ({ input, bias, probabilities, offsets }, output) =>
    expertActivationForward({ output, input: input!, bias, probabilities, offsets: offsets!, ...kind }),
  backward: ({ input, bias, probabilities, offsets }, outputGradient, gradients) =>
    expertActivationBackward({
      inputGradient: gradients.input!,
      probabilitiesGradient: gradients.probabilities!,
      outputGradient,
      input: input!,
      bias,
      probabilities,
      offsets: offsets!,
      ...kind,
    }),
}));
