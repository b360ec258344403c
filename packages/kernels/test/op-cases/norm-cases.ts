import { benchmarkSizes } from './benchmark-sizes.js';
import type { OpCase } from './op-case.js';

/** The epsilon of the cases of layer norm and of RMSNorm. */
export const epsilon = 1e-5;

export const normShapes: readonly (readonly number[])[] = [
  [3, 17],
  [4, 2, 64],
  [33, 384],
];

export const countRows = (shape: readonly number[]): number =>
  shape.slice(0, -1).reduce((product, dim) => product * dim, 1);

/** Declares 1 / sigma of each row. */
export const rstdOfRows = (numRows: number) =>
  ({ shape: [numRows], dtype: 'float32', values: (index: number) => 1 + 0.01 * (index % 50) }) as const;

/** @param rowSum the terms of the sum over a row */
export const normTolerance = (rowSum: string) => ({
  float32: { absolute: 1e-5, relative: 1e-5 },
  // rstd enters the gradient of a bfloat16 tensor through rounded inputs; the sums themselves are float32
  bfloat16: { absolute: 2e-2, relative: 2 ** -7 },
  reason: `sums over a row of ${rowSum} cancel; weight gradients sum over all rows in another order`,
});

/** The gradients that a backward pass may compute. */
export const gradientParts = ['all', 'input', 'weight'] as const;

/** Returns the outputs of a backward pass, and the addend to which the input gradient is added. */
export function declareGradients(
  part: (typeof gradientParts)[number],
  { shape, weights }: { readonly shape: readonly number[]; readonly weights: readonly string[] },
): OpCase['tensors'] {
  const ofWeight = { shape: [shape.at(-1)!], dtype: 'float32', output: true, accumulated: true } as const;
  return {
    ...(part !== 'weight' && { inputGradient: { shape, output: true }, addend: { shape } }),
    ...(part !== 'input' && Object.fromEntries(weights.map((name) => [name, ofWeight]))),
  };
}

/** The cases of each benchmarked model. */
export const normBenchmarks = (
  makeCases: (size: (typeof benchmarkSizes)[number]) => readonly OpCase[],
): readonly OpCase[] =>
  benchmarkSizes.flatMap((size) =>
    makeCases(size).map((one) => ({
      ...one,
      name: `${one.name} ${size.preset}`,
      benchmark: {},
      tolerance: {
        float32: { absolute: 1e-3, relative: 1e-4 },
        bfloat16: { absolute: 5e-2, relative: 2 ** -6 },
        reason: 'weight gradients are sums of thousands of cancelling terms',
      },
    })),
  );
