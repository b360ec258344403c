import type { LogicalTensor, ValueLimit } from '@mtl/checkpoint';
import { cast, Tensor } from '@mtl/kernels';
import type { ParallelGroups, ParameterStore } from '@mtl/optimizer';
import { replicaNumbers } from './replica-numbers.js';

/** Elements that are converted at a time: more would show in the peak of the memory of a run. */
const elementsAtATime = 2 ** 20;

/**
 * The frozen parameters of a store under their logical names, in float32: what this rank holds of them. Every
 * rank of the store's group holds all of them; what is written is rounded to the model's dtype.
 */
export function frozenTensors(
  { frozen, group }: ParameterStore,
  { groups, limit }: { readonly groups: ParallelGroups; readonly limit: ValueLimit },
): LogicalTensor[] {
  const replicas = replicaNumbers(frozen, { groups, group, isDivided: false });
  return frozen.map((parameter): LogicalTensor => {
    const readInto = (target: Uint8Array): void =>
      forParts(parameter.data, target, (part, floats, bytes) => {
        if (floats !== part) cast({ output: floats, input: part });
        floats.readInto(bytes);
      });
    return {
      name: parameter.name,
      slices: parameter.slices,
      replica: replicas.get(parameter)!,
      limit,
      dtype: 'F32',
      globalShape: parameter.globalShape,
      readInto,
      read: () => {
        const bytes = new Uint8Array(parameter.size * Float32Array.BYTES_PER_ELEMENT);
        readInto(bytes);
        return bytes;
      },
      write: (values) =>
        forParts(parameter.data, values, (part, floats, bytes) => {
          floats.write(bytes);
          if (floats !== part) cast({ output: part, input: floats });
        }),
    };
  });
}

/**
 * Calls `body` with consecutive parts of a tensor, memory for each in float32, the part itself where it is
 * float32, and its bytes of `values`.
 */
function forParts(
  data: Tensor,
  values: Uint8Array,
  body: (part: Tensor, floats: Tensor, bytes: Uint8Array) => void,
): void {
  const { dtype, device, size } = data;
  for (let start = 0; start < size; start += elementsAtATime) {
    const shape = [Math.min(elementsAtATime, size - start)];
    const end = start + shape[0]!;
    using part = data.view({ offset: start, shape });
    const bytes = values.subarray(4 * start, 4 * end);
    if (dtype === 'float32') {
      body(part, part, bytes);
    } else {
      using floats = Tensor.empty({ shape, dtype: 'float32', device });
      body(part, floats, bytes);
    }
  }
}
