import type { DType, Tensor } from '../../src/index.js';
import { bfloat16Value, float16Value } from '../../src/internal/index.js';
import type { OpCase, Tensors } from './op-case.js';
import { defaultTolerances } from './tolerances.js';

/** The elements of a tensor by index, without an array of numbers: benchmarks compare tens of millions. */
function elementsOf(tensor: Tensor): (index: number) => number {
  const values = tensor.read();
  if (tensor.dtype === 'bfloat16') return (index) => bfloat16Value(Number(values[index]));
  if (tensor.dtype === 'float16') return (index) => float16Value(Number(values[index]));
  return (index) => Number(values[index]);
}

/** The first violation of the tolerance over all outputs, as a message; undefined when everything agrees. */
export function compareOutputs(
  opCase: OpCase,
  dtype: DType,
  { actual, expected }: { actual: Tensors; expected: Tensors },
): string | undefined {
  const tolerance = opCase.tolerance?.[dtype] ?? defaultTolerances[dtype];
  if (tolerance === undefined) return `no tolerance for ${dtype}`;
  for (const [name, spec] of Object.entries(opCase.tensors)) {
    if (spec.output !== true) continue;
    const left = elementsOf(actual[name]!);
    const right = elementsOf(expected[name]!);
    for (let index = 0; index < actual[name]!.size; index++) {
      // an infinity equals only itself
      if (left(index) === right(index)) continue;
      const difference = Math.abs(left(index) - right(index));
      const magnitude = Number.isFinite(right(index)) ? Math.abs(right(index)) : 0;
      const allowed = tolerance.absolute + tolerance.relative * magnitude;
      if (!(difference <= allowed)) {
        return `${name}[${index}]: ${left(index)} is not ${right(index)} (allowed difference ${allowed})`;
      }
    }
  }
  return undefined;
}
