import { queriesAndKeys, rotaryEmbedding, tidy } from '../../src/index.js';
import { benchmarkSizes } from './benchmark-sizes.js';
import type { GradientCase, OpCase, TensorSpec } from './op-case.js';

const numPositions = 50;

interface Sizes {
  /** [S, B, ..., D] or [T, ..., D] */
  readonly shape: readonly number[];
  /** The number of dimensions of the positions: the first dimensions of `shape`. */
  readonly of: 1 | 2;
  readonly rotarySize: number;
  readonly interleaved: boolean;
  readonly inverse?: boolean;
}

/** Declares positions out of order, with repetitions. */
const positions = (shape: readonly number[]): TensorSpec => ({
  shape,
  dtype: 'int32',
  values: (index) => (index * 7 + 3) % numPositions,
});

const table = (rotarySize: number): TensorSpec => ({
  shape: [numPositions, rotarySize],
  dtype: 'float32',
  values: (index) => {
    const [position, column] = [Math.floor(index / rotarySize), index % rotarySize];
    const angle = position * 10000 ** (-(2 * (column % (rotarySize / 2))) / rotarySize);
    return column < rotarySize / 2 ? Math.cos(angle) : Math.sin(angle);
  },
});

const describe = ({ shape, rotarySize, interleaved, inverse = false }: Sizes): string =>
  `[${shape}] of ${rotarySize}${interleaved ? ' interleaved' : ''}${inverse ? ' inverse' : ''}`;

const contiguous = (sizes: Sizes): OpCase => ({
  name: `rotary_embedding ${describe(sizes)}`,
  operation: 'rotary_embedding',
  tensors: {
    output: { shape: sizes.shape, output: true },
    input: { shape: sizes.shape },
    positions: positions(sizes.shape.slice(0, sizes.of)),
    table: table(sizes.rotarySize),
  },
  run: ({ output, input, positions, table }) =>
    rotaryEmbedding({
      output: output!,
      input: input!,
      positions: positions!,
      table: table!,
      interleaved: sizes.interleaved,
      inverse: sizes.inverse ?? false,
    }),
});

/** Rotates the queries and keys of a packed projection in place; its values stay as they are. */
const packed = (sizes: Sizes): OpCase => ({
  name: `rotary_embedding in place ${describe(sizes)}`,
  operation: 'rotary_embedding',
  tensors: {
    qkv: { shape: sizes.shape, output: true, accumulated: true },
    positions: positions(sizes.shape.slice(0, 2)),
    table: table(sizes.rotarySize),
  },
  run: ({ qkv, positions, table }) =>
    tidy(() => {
      const view = queriesAndKeys(qkv!);
      rotaryEmbedding({
        output: view,
        input: view,
        positions: positions!,
        table: table!,
        interleaved: sizes.interleaved,
        inverse: sizes.inverse ?? false,
      });
    }),
});

// heads of every kind of size: odd, smaller than a vector, rotated in part, and more rows than one thread
// takes
const sizes = [false, true].flatMap((interleaved): Sizes[] => [
  { shape: [3, 2, 3, 7], of: 2, rotarySize: 6, interleaved },
  { shape: [5, 2, 2], of: 2, rotarySize: 2, interleaved },
  { shape: [6, 3, 64], of: 1, rotarySize: 64, interleaved },
  { shape: [4, 2, 2, 80], of: 2, rotarySize: 20, interleaved, inverse: true },
  { shape: [4, 33], of: 1, rotarySize: 32, interleaved },
  { shape: [70, 2, 3, 97], of: 2, rotarySize: 96, interleaved, inverse: true },
]);

const packedSizes = [false, true].flatMap((interleaved): Sizes[] => [
  { shape: [3, 2, 2, 4, 10], of: 2, rotarySize: 6, interleaved },
  { shape: [70, 2, 2, 3, 64], of: 2, rotarySize: 64, interleaved, inverse: true },
]);

const benchmarks = benchmarkSizes.flatMap(({ preset, sequence, batch, hidden }): OpCase[] =>
  [false, true].map((interleaved) => {
    const shape = [sequence, batch, hidden / 64, 3, 64];
    const one = packed({ shape, of: 2, rotarySize: 64, interleaved });
    return { ...one, name: `${one.name} ${preset}`, benchmark: {} };
  }),
);

export const cases: readonly OpCase[] = [...sizes.map(contiguous), ...packedSizes.map(packed), ...benchmarks];

const gradientCase = (interleaved: boolean): GradientCase => ({
  name: `rotary_embedding${interleaved ? ' interleaved' : ''}`,
  tensors: { input: { shape: [3, 2, 7] }, positions: positions([3, 2]), table: table(4) },
  differentiable: ['input'],
  outputShape: [3, 2, 7],
  forward: ({ input, positions, table }, output) =>
    rotaryEmbedding({ output, input: input!, positions: positions!, table: table!, interleaved }),
  backward: ({ positions, table }, outputGradient, gradients) =>
    rotaryEmbedding({
      output: gradients.input!,
      input: outputGradient,
      positions: positions!,
      table: table!,
      interleaved,
      inverse: true,
    }),
});

export const gradientCases: readonly GradientCase[] = [gradientCase(false), gradientCase(true)];
