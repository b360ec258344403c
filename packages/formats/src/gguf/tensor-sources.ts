import { dtypeBytes, type LogicalTensor } from '@mtl/checkpoint';
import { countElements } from '@mtl/kernels';
import { decodeFloats, ScratchMemory, viewAsBytes } from '../huggingface/float-bytes.js';
import { type MappedTensor, mappedTensors, WholeTensors } from '../huggingface/mapped-weight-sources.js';
import { type WeightNames, writableDtype } from '../huggingface/mapped-weights.js';
import { fillRuns, reversedRuns, runsWithin } from '../huggingface/value-runs.js';
import type { HuggingFaceTensor } from '../huggingface/weight-mapping.js';
import { rowLength, type TensorType } from './tensor-types.js';
import type { GgufTensorSource } from './write-gguf-file.js';

/** How many values are converted at a time by default. */
const usualValuesAtOnce = 2 ** 22;

/**
 * Returns the tensors of a GGUF file. A large tensor that can be read in slices is converted in blocks of
 * rows, so that memory does not depend on its size. All other tensors are read completely.
 *
 * @param options.chooseType returns a tensor's type, given its name in GGUF and its shape
 * @param options.valuesAtOnce how many values are converted at a time, at least one row
 * @throws UsageError MTL_HUGGING_FACE_TENSOR for a tensor that is missing, unknown or only a slice
 */
export function tensorSources(options: {
  readonly names: WeightNames;
  readonly tensors: readonly LogicalTensor[];
  readonly chooseType: (tensor: HuggingFaceTensor) => TensorType;
  readonly valuesAtOnce?: number;
}): GgufTensorSource[] {
  const { names, tensors, chooseType, valuesAtOnce = usualValuesAtOnce } = options;
  const isInParts = ({ tensor, mapping }: MappedTensor): boolean =>
    tensor.readRange !== undefined &&
    mapping.listRuns !== undefined &&
    countElements(tensor.globalShape) > valuesAtOnce;
  const mapped = mappedTensors(names, tensors);
  const whole = new WholeTensors(mapped.filter((one) => !isInParts(one)).map(({ tensor }) => tensor));
  // memory for one block: its values, its bytes, and the neighbouring rows that reordering requires
  const scratch = new ScratchMemory(4 * valuesAtOnce * Float32Array.BYTES_PER_ELEMENT);
  return mapped.flatMap((one) =>
    one.mapping.sources.map((source, position) => ({
      ...source,
      type: chooseType(source),
      read: async function* () {
        if (isInParts(one)) yield* readBlocks(one, { position, valuesAtOnce, scratch });
        else yield await whole.read(one, position);
      },
    })),
  );
}

/** Yields the values of the source with index `position`, a block of rows at a time. */
async function* readBlocks(
  { tensor, mapping }: MappedTensor,
  options: { readonly position: number; readonly valuesAtOnce: number; readonly scratch: ScratchMemory },
): AsyncGenerator<Float32Array> {
  const { position, valuesAtOnce, scratch } = options;
  const runs = reversedRuns(mapping.listRuns!(position));
  const { shape } = mapping.sources[position]!;
  const [length, numValues] = [rowLength(shape), countElements(shape)];
  const step = Math.max(1, Math.floor(valuesAtOnce / length)) * length;
  const dtype = writableDtype(tensor);
  const read = async (range: { readonly start: number; readonly end: number }, values: Float32Array) => {
    const bytes = dtype === 'F32' ? viewAsBytes(values) : scratch.bytes(values.length * dtypeBytes[dtype]);
    await tensor.readRange!(range, bytes);
    if (dtype !== 'F32') decodeFloats(bytes, dtype, () => values);
  };
  for (let start = 0; start < numValues; start += step) {
    scratch.reset();
    const end = Math.min(start + step, numValues);
    const target = scratch.floats(end - start);
    const own = runsWithin(runs, { start, end }).map((run) => ({ ...run, to: run.to - start }));
    await fillRuns({ runs: own, target, read, spare: scratch.floats });
    yield target;
  }
}
