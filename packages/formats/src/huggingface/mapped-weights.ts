import type { LogicalTensor, TensorSource } from '@mtl/checkpoint';
import { checkValues, copyBox, dtypeBytes, fillTensor } from '@mtl/checkpoint/internal';
import { CheckpointError, nearestName, UsageError } from '@mtl/errors';
import {
  type AllocateFloats,
  decodeFloats,
  encodeFloats,
  isReadableDtype,
  readableDtypes,
  ScratchMemory,
  type WritableDtype,
} from './float-bytes.js';
import { chooseTerms, type WeightFiles, weightsRefused } from './weight-files.js';
import type { WeightMapping } from './weight-mapping.js';

/** The names that files use for the tensors of a family of models. */
export interface WeightNames {
  readonly mappings: readonly WeightMapping[];
  /**
   * Prefixes of the base model's names in a file with a head, such as `transformer.`; files of the base have
   * none.
   */
  readonly prefix: string;
  /**
   * Returns whether files may also contain a name (without prefix): buffers of older versions, tied weights.
   */
  isIgnored(name: string): boolean;
  /**
   * Names (without prefix) of tensors that repeat another tensor, mapped to that tensor's name. If a file
   * contains both, their values must be equal.
   */
  readonly copies?: Readonly<Record<string, string>>;
  /**
   * Returns the name (without prefix) in today's files for a name that older versions wrote. Default: the
   * same name.
   */
  canonical?(name: string): string;
}

const formatShape = (shape: readonly number[]): string => `[${shape.join(', ')}]`;
const sameShape = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((size, dim) => size === b[dim]);

/**
 * Returns a map from the mappings' names to the names in the files. Everything is checked here, before
 * anything is written: each tensor is there, in its shape and a readable dtype, and nothing is left over.
 */
export function resolveNames(
  weights: Pick<WeightFiles, 'path' | 'tensors' | 'terms'>,
  names: Omit<WeightNames, 'mappings'> & { readonly mappings: readonly Pick<WeightMapping, 'sources'>[] },
): ReadonlyMap<string, string> {
  const { mappings, prefix, isIgnored, copies = {}, canonical = (name: string) => name } = names;
  const stripped = (name: string): string =>
    canonical(name.startsWith(prefix) ? name.slice(prefix.length) : name);
  const originals = new Map(Object.entries(copies).map(([copy, original]) => [original, copy]));
  const inFile = new Map([...weights.tensors.keys()].map((name) => [stripped(name), name]));
  const wanted = new Map<string, string>();
  for (const { name, shape } of mappings.flatMap(({ sources }) => sources)) {
    // a file may hold either tensor of a tied pair
    const fileName = inFile.get(name) ?? inFile.get(originals.get(name) ?? '');
    if (fileName === undefined) {
      const missing = nameInFile(name, { weights, prefix });
      const nearest = nearestName(missing, weights.tensors.keys());
      throw weightsRefused(weights, `tensor ${missing} not found`, nearest && `a name such as ${nearest}`);
    }
    const entry = weights.tensors.get(fileName)!;
    if (!sameShape(entry.shape, shape)) {
      throw weightsRefused(
        weights,
        `${fileName} has the shape ${formatShape(entry.shape)}`,
        formatShape(shape),
      );
    }
    if (!isReadableDtype(entry.dtype)) {
      throw weightsRefused(weights, `${fileName} is ${entry.dtype}`, readableDtypes.join(', '));
    }
    wanted.set(name, fileName);
  }
  const unknown = [...inFile].filter(([name]) => !wanted.has(name) && !isIgnored(name));
  if (unknown.length > 0) {
    const names = unknown.map(([, fileName]) => fileName);
    throw weightsRefused(
      weights,
      `${names.length} tensors that this model does not have: ${names.slice(0, 4).join(', ')}`,
      `the tensors of ${chooseTerms(weights).configuration} only`,
    );
  }
  return wanted;
}

/** Names of heads, which have no prefix in any file. */
const ofHead = /^(lm_head|cls|classifier|qa_outputs)\./;

/** Returns the name of a tensor in a file with these names. */
function nameInFile(
  name: string,
  { weights, prefix }: { weights: Pick<WeightFiles, 'tensors'>; prefix: string },
): string {
  const hasPrefix = [...weights.tensors.keys()].some((known) => known.startsWith(prefix));
  return hasPrefix && !ofHead.test(name) ? `${prefix}${name}` : name;
}

/**
 * Rejects a file in which a tied tensor has different values: transformers would then compute with both.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_WEIGHTS
 */
async function checkCopies(weights: WeightFiles, { prefix, copies = {} }: WeightNames): Promise<void> {
  const find = (name: string): string | undefined =>
    [name, `${prefix}${name}`].find((known) => weights.tensors.has(known));
  for (const [copyName, originalName] of Object.entries(copies)) {
    const [copy, original] = [find(copyName), find(originalName)];
    if (copy === undefined || original === undefined) continue;
    const [one, other] = [await weights.read({ name: copy }), await weights.read({ name: original })];
    if (weights.tensors.get(copy)!.dtype === weights.tensors.get(original)!.dtype) {
      if (Buffer.compare(one, other) === 0) continue;
    }
    throw weightsRefused(
      weights,
      `${copy} has other values than ${original}, and ${chooseTerms(weights).configuration} says that they are tied`,
      `tied weights, or ${chooseTerms(weights).untied}`,
    );
  }
}

/**
 * Copies the box `slices` out of a row-major tensor; returns the tensor without a copy if the box is all of
 * it.
 */
function extractBox(
  values: Float32Array,
  { globalShape, slices }: Pick<LogicalTensor, 'globalShape' | 'slices'>,
  allocate: AllocateFloats,
): Float32Array {
  if (slices.every(({ start, end }, dim) => start === 0 && end === globalShape[dim])) return values;
  const size = slices.reduce((product, { start, end }) => product * (end - start), 1);
  const box = allocate(size);
  const dtype = 'F32';
  copyBox({
    source: encodeFloats(values, dtype),
    target: encodeFloats(box, dtype),
    dtype,
    globalShape,
    slices,
  });
  return box;
}

function findMapping(tensor: LogicalTensor, byName: ReadonlyMap<string, WeightMapping>): WeightMapping {
  const mapping = byName.get(tensor.name);
  if (mapping === undefined) {
    throw new UsageError('MTL_HUGGING_FACE_TENSOR', `no weight of the model is called ${tensor.name}`, {
      expected: nearestName(tensor.name, byName.keys()) ?? 'the names of the parameters of its stages',
    });
  }
  if (sameShape(mapping.globalShape, tensor.globalShape)) return mapping;
  throw new CheckpointError(
    'MTL_HUGGING_FACE_SHAPE',
    `${tensor.name} has the shape ${formatShape(mapping.globalShape)} in the Hugging Face model and ` +
      `${formatShape(tensor.globalShape)} in this one`,
    { remedy: 'build the model from the configuration that was read', exitCode: 2 },
  );
}

const writableDtype = (tensor: LogicalTensor): WritableDtype => {
  if (tensor.dtype === 'F32' || tensor.dtype === 'BF16' || tensor.dtype === 'F16') return tensor.dtype;
  throw new UsageError('MTL_HUGGING_FACE_TENSOR', `${tensor.name} is ${tensor.dtype}`, {
    expected: 'F32, BF16 or F16',
  });
};

/**
 * Returns the total bytes of all copies of a tensor that exist while it is read: its bytes in the file, its
 * values, the values in our order, and this rank's box.
 */
const bytesOnTheWay = ({ globalShape }: Pick<LogicalTensor, 'globalShape'>): number =>
  globalShape.reduce((product, size) => product * size, Float64Array.BYTES_PER_ELEMENT + 3 * 4) + 64;

/** Returns whether a finite number of dtype `from` may become infinite in dtype `to`. */
function overflows(from: string, to: WritableDtype): boolean {
  const maxima: Readonly<Record<string, number>> = { F16: 1, BF16: 2, F32: 3, F64: 4 };
  return maxima[from]! > maxima[to]!;
}

/**
 * Refuses values that the dtype cannot hold.
 *
 * @throws CheckpointError MTL_NOT_FINITE, naming the tensor as the file does
 */
function checkOverflow(
  values: Float32Array,
  { weights, name, dtype }: { weights: WeightFiles; name: string; dtype: WritableDtype },
): void {
  const slices = weights.tensors.get(name)!.shape.map((size) => ({ start: 0, end: size }));
  const remedy = `the weights do not fit ${dtype}: take others, or compute in a wider dtype`;
  checkValues(encodeFloats(values, dtype), {
    dtype,
    check: { place: weights.path, name, slices, remedy, exitCode: 2 },
  });
}

/**
 * A part of a tensor that is read and converted to our order in one step: the whole tensor, or one entry of
 * its first dimension.
 */
interface WeightPiece {
  readonly globalShape: readonly number[];
  readonly slices: LogicalTensor['slices'];
  readonly sources: WeightMapping['sources'];
}

/** Returns the parts of a tensor that this rank holds. */
function listParts({ globalShape, slices }: LogicalTensor, mapping: WeightMapping): readonly WeightPiece[] {
  const { sources, sourcesOfEntry } = mapping;
  if (sourcesOfEntry === undefined) return [{ globalShape, slices, sources }];
  const { start, end } = slices[0]!;
  return Array.from({ length: end - start }, (_, index) => ({
    globalShape: globalShape.slice(1),
    slices: slices.slice(1),
    sources: sources.slice((start + index) * sourcesOfEntry, (start + index + 1) * sourcesOfEntry),
  }));
}

interface Reading {
  readonly weights: WeightFiles;
  readonly fileNames: ReadonlyMap<string, string>;
  readonly scratch: ScratchMemory;
  readonly mapping: WeightMapping;
  readonly dtype: WritableDtype;
}

const isSameMemory = (one: Uint8Array, other: Uint8Array): boolean =>
  one.buffer === other.buffer && one.byteOffset === other.byteOffset;

/**
 * Fills `target` with this rank's box of a part. Values that are float32 in the file and here are read
 * directly into `target`, or copied into it once.
 */
async function readPart(
  { globalShape, slices, sources }: WeightPiece,
  target: Uint8Array,
  { weights, fileNames, scratch, mapping, dtype }: Reading,
): Promise<void> {
  scratch.reset();
  const floats: AllocateFloats = (length) =>
    dtype === 'F32' && 4 * length === target.length
      ? new Float32Array(target.buffer, target.byteOffset, length)
      : scratch.floats(length);
  const isWhole = slices.every(({ start, end }, dim) => start === 0 && end === globalShape[dim]);
  const read: Float32Array[] = [];
  for (const { name } of sources) {
    const fileName = fileNames.get(name)!;
    const { dtype: stored, bytes } = weights.tensors.get(fileName)!;
    // resolveNames has already rejected the other dtypes
    if (!isReadableDtype(stored)) continue;
    const isInPlace = isWhole && mapping.startsWithSource === true && stored === 'F32' && dtype === 'F32';
    const memory = isInPlace ? target.subarray(0, bytes) : scratch.bytes(bytes);
    const own = await weights.read({ name: fileName, target: memory, requireFinite: true });
    const values = decodeFloats(own, stored, scratch.floats);
    read.push(values);
    // values that are finite in the file may overflow here
    if (overflows(stored, dtype)) checkOverflow(values, { weights, name: fileName, dtype });
  }
  const logical = mapping.toLogical(read, isWhole ? floats : scratch.floats);
  const filled = encodeFloats(extractBox(logical, { globalShape, slices }, floats), dtype);
  if (!isSameMemory(filled, target)) target.set(filled);
}

/**
 * Fills logical tensors (any tensors and slices of the model) from a directory. Peak memory depends on the
 * largest tensor: its bytes in the file, in float32, and in our layout, where these differ, and its box if it
 * has no memory.
 */
export async function loadMappedWeights(options: {
  readonly weights: WeightFiles;
  readonly names: WeightNames;
  readonly tensors: readonly LogicalTensor[];
}): Promise<void> {
  const { weights, names, tensors } = options;
  const fileNames = resolveNames(weights, names);
  await checkCopies(weights, names);
  const byName = new Map(names.mappings.map((mapping) => [mapping.name, mapping]));
  const loaded = tensors.map((tensor) => {
    const mapping = findMapping(tensor, byName);
    return { tensor, mapping, dtype: writableDtype(tensor), parts: listParts(tensor, mapping) };
  });
  const most = (sizes: readonly number[]): number => sizes.reduce((one, other) => Math.max(one, other), 0);
  const scratch = new ScratchMemory(most(loaded.flatMap(({ parts }) => parts.map(bytesOnTheWay))));
  const copied = tensors.filter(({ withMemory }) => withMemory === undefined);
  const boxes = new ScratchMemory(most(copied.map(bytesOfBox)));
  for (const { tensor, mapping, dtype, parts } of loaded) {
    boxes.reset();
    const spare = () => boxes.bytes(bytesOfBox(tensor));
    await fillTensor(tensor, spare, async (memory) => {
      let start = 0;
      for (const part of parts) {
        const target = memory.subarray(start, start + bytesOfBox({ ...part, dtype }));
        await readPart(part, target, { weights, fileNames, scratch, mapping, dtype });
        start += target.length;
      }
    });
  }
}

const bytesOfBox = ({ slices, dtype }: Pick<LogicalTensor, 'slices' | 'dtype'>): number =>
  slices.reduce<number>((product, { start, end }) => product * (end - start), dtypeBytes[dtype]);

/**
 * Returns the sources of a safetensors directory: every tensor of the model, read in order. Each read
 * overwrites the values of the previous one. A tensor that is stored as several consecutive ones is read
 * once. Peak memory depends on the largest tensor: two float32 copies, and a third one if the layouts differ.
 */
export function mappedWeightSources(options: {
  readonly names: WeightNames;
  readonly tensors: readonly LogicalTensor[];
  readonly dtype: WritableDtype;
  /** Returns a tensor's name in the file, given its name without prefix. */
  fileName(name: string): string;
}): TensorSource[] {
  const { names, dtype, fileName } = options;
  const byName = new Map(names.mappings.map((mapping) => [mapping.name, mapping]));
  // a tied embedding may occur twice: on the first and on the last pipeline stage
  const given = new Map(options.tensors.map((tensor) => [tensor.name, tensor]));
  for (const tensor of given.values()) {
    findMapping(tensor, byName);
    if (tensor.slices.some(({ start, end }, dim) => start !== 0 || end !== tensor.globalShape[dim])) {
      throw new UsageError('MTL_HUGGING_FACE_TENSOR', `only a slice of ${tensor.name} is given`, {
        remedy: 'gather the model, or load its checkpoint into one process',
      });
    }
  }
  const scratch = new ScratchMemory(Math.max(0, ...options.tensors.map(bytesOnTheWay)));
  const read = async (tensor: LogicalTensor): Promise<Uint8Array> => {
    if (tensor.readInto === undefined) return await tensor.read();
    const whole = scratch.bytes(
      tensor.globalShape.reduce((product, size) => product * size, dtypeBytes[tensor.dtype]),
    );
    await tensor.readInto(whole);
    return whole;
  };
  let last: { readonly mapping: WeightMapping; readonly values: readonly Float32Array[] } | undefined;
  return names.mappings.flatMap((mapping) => {
    const tensor = given.get(mapping.name);
    if (tensor === undefined) {
      throw new UsageError(
        'MTL_HUGGING_FACE_TENSOR',
        `${mapping.name} is missing among the tensors to save`,
        {
          expected: 'every parameter of the model',
        },
      );
    }
    const stored = mapping.dtype ?? dtype;
    return mapping.sources.map(({ name, shape }, position) => ({
      name: fileName(name),
      dtype: stored,
      shape,
      check: {
        place: 'the model to save',
        name: fileName(name),
        slices: shape.map((size) => ({ start: 0, end: size })),
        remedy: `take other weights${dtype === 'F32' ? '' : `, or save them as float32 if they do not fit ${dtype}`}`,
      },
      read: async () => {
        if (last?.mapping !== mapping || position === 0) {
          scratch.reset();
          const logical = decodeFloats(await read(tensor), writableDtype(tensor), scratch.floats);
          last = { mapping, values: mapping.toSources(logical, scratch.floats) };
        }
        return encodeFloats(last.values[position]!, stored);
      },
    }));
  });
}
