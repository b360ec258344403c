import type { DType, Tensor } from '../../src/index.js';
import { bfloat16Value, float16Value } from '../../src/index.js';
import type { OpCase, Tensors } from './op-case.js';
import { defaultTolerances } from './tolerances.js';

/** The number for each bit pattern of a 16-bit float: a look-up takes less time than a computation. */
const tables: Partial<Record<DType, Float32Array>> = {};

function makeTable(dtype: DType, convertNumber: (bits: number) => number): Float32Array {
  const table = tables[dtype] ?? Float32Array.from({ length: 65536 }, (_, bits) => convertNumber(bits));
  tables[dtype] = table;
  return table;
}

/** Returns the elements of a tensor, without an array of numbers: benchmarks compare tens of millions. */
function readElements(tensor: Tensor): ArrayLike<number> {
  const values = tensor.read();
  const { dtype } = tensor;
  if (values instanceof BigInt64Array) return Float64Array.from(values, Number);
  if (dtype !== 'bfloat16' && dtype !== 'float16') return values as Exclude<typeof values, BigInt64Array>;
  const table = makeTable(dtype, dtype === 'bfloat16' ? bfloat16Value : float16Value);
  const elements = new Float32Array(values.length);
  for (let index = 0; index < values.length; index++) elements[index] = table[values[index] as number]!;
  return elements;
}

/**
 * Returns the first violation of the tolerance over all outputs, as a message; undefined if all outputs
 * match.
 */
export function compareOutputs(
  opCase: OpCase,
  dtype: DType,
  { actual, expected }: { actual: Tensors; expected: Tensors },
): string | undefined {
  const tolerance = opCase.tolerance?.[dtype] ?? defaultTolerances[dtype];
  if (tolerance === undefined) return `no tolerance for ${dtype}`;
  for (const [name, spec] of Object.entries(opCase.tensors)) {
    if (spec.output !== true) continue;
    const left = readElements(actual[name]!);
    const right = readElements(expected[name]!);
    for (let index = 0; index < left.length; index++) {
      const value = left[index]!;
      const wanted = right[index]!;
      // an infinity equals only itself
      if (value === wanted) continue;
      const difference = Math.abs(value - wanted);
      const magnitude = Number.isFinite(wanted) ? Math.abs(wanted) : 0;
      const allowed = tolerance.absolute + tolerance.relative * magnitude;
      if (!(difference <= allowed)) {
        return `${name}[${index}]: ${value} is not ${wanted} (allowed difference ${allowed})`;
      }
    }
  }
  return undefined;
}
