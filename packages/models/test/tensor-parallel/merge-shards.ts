import type { ParameterGradient } from './small-gpt.js';

/** A fault to be detected: the partial gradients of this parameter are not summed over ranks. */
export interface PutTogetherOptions {
  readonly unsummed?: string;
}

/**
 * Returns the complete gradient of every parameter, given the gradients of all tensor-parallel ranks: it
 * concatenates shards and sums partial gradients. Throws if copies that should be equal differ in any bit.
 */
export function mergeShards(
  ranks: readonly (readonly ParameterGradient[])[],
  { unsummed }: PutTogetherOptions = {},
): Map<string, Float64Array> {
  return new Map(
    ranks[0]!.map((first, position) => {
      const all = ranks.map((gradients) => gradients[position]!);
      const whole = new Float64Array(first.globalShape.reduce((product, size) => product * size, 1));
      if (first.isPartial && first.name !== unsummed) {
        for (const { values } of all) {
          for (const [index, value] of values.entries()) whole[index]! += value;
        }
      } else if (first.isReplicated) {
        whole.set(first.values);
        if (!first.isPartial) for (const [rank, copy] of all.entries()) checkSame(first, copy, rank);
      } else {
        for (const shard of all) place(whole, shard);
      }
      return [first.name, whole];
    }),
  );
}

function checkSame(first: ParameterGradient, copy: ParameterGradient, rank: number): void {
  const differs = copy.values.findIndex((value, index) => !Object.is(value, first.values[index]));
  if (differs >= 0) throw new Error(`${first.name}: rank ${rank} differs from rank 0 at ${differs}`);
}

/** Writes a box into a row-major tensor. */
function place(whole: Float64Array, { globalShape, slices, values }: ParameterGradient): void {
  let read = 0;
  const walk = (dim: number, offset: number): void => {
    const { start, end } = slices[dim]!;
    for (let index = start; index < end; index++) {
      const at = offset * globalShape[dim]! + index;
      if (dim === slices.length - 1) whole[at] = values[read++]!;
      else walk(dim + 1, at);
    }
  };
  walk(0, 0);
}
