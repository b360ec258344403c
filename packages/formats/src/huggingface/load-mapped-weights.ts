import {
  checkValues,
  copyBox,
  dtypeBytes,
  fillTensor,
  type LogicalTensor,
  type RunPlan,
  runsOfBox,
} from '@mtl/checkpoint';
import {
  type AllocateFloats,
  decodeFloats,
  encodeFloats,
  isReadableDtype,
  ScratchMemory,
  viewAsBytes,
  type WritableDtype,
} from './float-bytes.js';
import { findMapping, resolveNames, type WeightNames, writableDtype } from './mapped-weights.js';
import { composedRuns, fillRuns, type ValueRange, type ValueRun } from './value-runs.js';
import { chooseTerms, type WeightFiles, weightsRefused } from './weight-files.js';
import type { WeightMapping } from './weight-mapping.js';

/** how many values are converted at a time if files can be read in slices */
const usualValuesAtOnce = 2 ** 22;

/**
 * Rejects files in which a tied pair of tensors has different values, because transformers would use both
 * tensors.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_WEIGHTS
 */
async function checkCopies(weights: WeightFiles, { prefix, copies = {} }: WeightNames): Promise<void> {
  const find = (name: string): string | undefined =>
    [name, `${prefix}${name}`].find((known) => weights.tensors.has(known));
  for (const [copyName, originalName] of Object.entries(copies)) {
    const [copy, original] = [find(copyName), find(originalName)];
    if (copy === undefined || original === undefined) continue;
    if (await isSame(weights, copy, original)) continue;
    throw weightsRefused(
      weights,
      `${copy} has other values than ${original}, and ${chooseTerms(weights).configuration} says that they are tied`,
      `tied weights, or ${chooseTerms(weights).untied}`,
    );
  }
}

async function isSame(weights: WeightFiles, one: string, other: string): Promise<boolean> {
  const [first, second] = [weights.tensors.get(one)!, weights.tensors.get(other)!];
  if (first.dtype !== second.dtype || first.bytes !== second.bytes) return false;
  const values = first.bytes / dtypeBytes[first.dtype];
  const atOnce = weights.readsRanges === true ? usualValuesAtOnce : values;
  for (let start = 0; start < values; start += atOnce) {
    const range = atOnce === values ? {} : { range: { start, end: Math.min(start + atOnce, values) } };
    const bytes = [
      await weights.read({ name: one, ...range }),
      await weights.read({ name: other, ...range }),
    ];
    if (Buffer.compare(bytes[0]!, bytes[1]!) !== 0) return false;
  }
  return true;
}

/**
 * Copies the box `slices` out of a row-major tensor. If the box is the whole tensor, returns the tensor
 * itself.
 */
function extractBox(
  values: Float32Array,
  { globalShape, slices }: Pick<LogicalTensor, 'globalShape' | 'slices'>,
  allocate: AllocateFloats,
): Float32Array {
  if (slices.every(({ start, end }, dim) => start === 0 && end === globalShape[dim])) return values;
  const box = allocate(valuesOfBox({ slices }));
  const dtype = 'F32';
  copyBox({ source: viewAsBytes(values), target: viewAsBytes(box), dtype, globalShape, slices });
  return box;
}

/** Returns true if a finite value of dtype `from` may become infinite in dtype `to`. */
function overflows(from: string, to: WritableDtype): boolean {
  const maxima: Readonly<Record<string, number>> = { F16: 1, BF16: 2, F32: 3, F64: 4 };
  return maxima[from]! > maxima[to]!;
}

const valuesOfBox = ({ slices }: Pick<LogicalTensor, 'slices'>): number =>
  slices.reduce((product, { start, end }) => product * (end - start), 1);

const bytesOfBox = (tensor: Pick<LogicalTensor, 'slices' | 'dtype'>): number =>
  valuesOfBox(tensor) * dtypeBytes[tensor.dtype];

/** Returns the runs that copy a range of a box from the complete tensor. */
function runsOfRange(plan: RunPlan, { start, end }: ValueRange): readonly ValueRun[] {
  const length = plan.runBytes;
  const runs: ValueRun[] = [];
  for (let run = Math.floor(start / length); run * length < end; run++) {
    const [begin, stop] = [Math.max(run * length, start), Math.min((run + 1) * length, end)];
    runs.push({
      from: plan.sourceOffset(run) + begin - run * length,
      to: begin - start,
      length: stop - begin,
    });
  }
  return runs;
}

/** A tensor to fill, with its mapping. */
interface Filled {
  readonly tensor: LogicalTensor;
  readonly mapping: WeightMapping;
  readonly dtype: WritableDtype;
}

/**
 * A model's opened weights, which fill logical tensors. If files can be read in slices, the peak memory is
 * 2^22 values, both as stored and in float32. Otherwise, or if rows are in a different order in the files,
 * the peak memory is the largest tensor: its bytes in the file, in float32 and in our layout. A tensor
 * without its own memory also needs memory for its box.
 */
export class MappedWeights {
  readonly #weights: WeightFiles;
  readonly #fileNames: ReadonlyMap<string, string>;
  readonly #mappings: ReadonlyMap<string, WeightMapping>;
  readonly #valuesAtOnce: number;
  #scratch = new ScratchMemory(0);
  #whole: { readonly name: string; readonly values: Float32Array } | undefined;

  private constructor(weights: WeightFiles, names: WeightNames, valuesAtOnce: number) {
    this.#weights = weights;
    this.#fileNames = resolveNames(weights, names);
    this.#mappings = new Map(names.mappings.map((mapping) => [mapping.name, mapping]));
    this.#valuesAtOnce = valuesAtOnce;
  }

  /**
   * Opens the weights. Checks their names, shapes and dtypes, and that tied tensors are equal.
   *
   * @param options.valuesAtOnce how many values are converted at a time
   * @throws CheckpointError MTL_HUGGING_FACE_WEIGHTS, or the files' own error code
   */
  static async open(options: {
    readonly weights: WeightFiles;
    readonly names: WeightNames;
    readonly valuesAtOnce?: number;
  }): Promise<MappedWeights> {
    const { weights, names, valuesAtOnce = usualValuesAtOnce } = options;
    const mapped = new MappedWeights(weights, names, valuesAtOnce);
    await checkCopies(weights, names);
    return mapped;
  }

  /** Fills the given tensors, or slices of tensors, with the weights. */
  async load(tensors: readonly LogicalTensor[]): Promise<void> {
    const filled = tensors.map((tensor) => ({
      tensor,
      mapping: findMapping(tensor, this.#mappings),
      dtype: writableDtype(tensor),
    }));
    const most = (sizes: readonly number[]): number => sizes.reduce((one, other) => Math.max(one, other), 0);
    const needed = most(filled.map((one) => this.#bytesOnTheWay(one)));
    if (needed > this.#scratch.capacity) this.#scratch = new ScratchMemory(needed);
    const copied = tensors.filter(({ withMemory }) => withMemory === undefined);
    const boxes = new ScratchMemory(most(copied.map(bytesOfBox)));
    for (const one of filled) {
      boxes.reset();
      const spare = () => boxes.bytes(bytesOfBox(one.tensor));
      await fillTensor(one.tensor, spare, async (memory) => {
        if (one.mapping.listRuns === undefined) await this.#fillWhole(one, memory);
        else await this.#fillParts(one, memory);
      });
    }
  }

  /** Returns how many of a tensor's values are converted at a time. */
  #countAtOnce({ tensor, mapping }: Filled): number {
    const isInParts = mapping.listRuns !== undefined && this.#weights.readsRanges === true;
    return isInParts ? this.#valuesAtOnce : tensor.globalShape.reduce((product, size) => product * size, 1);
  }

  /**
   * Returns how many bytes all copies take while a part of a tensor is read: the bytes of the file, their
   * values in float32, the values in our order, and this rank's box. If rows are reordered, the values are in
   * memory twice.
   */
  #bytesOnTheWay(filled: Filled): number {
    const volume = filled.tensor.globalShape.reduce((product, size) => product * size, 1);
    return Math.min(volume, 2 * this.#countAtOnce(filled)) * (Float64Array.BYTES_PER_ELEMENT + 3 * 4) + 64;
  }

  /** Fills a tensor's box part by part. float32 values are read directly into the box. */
  async #fillParts(filled: Filled, memory: Uint8Array): Promise<void> {
    const { tensor, mapping, dtype } = filled;
    const plan = runsOfBox(tensor);
    const runs = mapping.sources.map((_, source) => mapping.listRuns!(source));
    const total = valuesOfBox(tensor);
    const [atOnce, size] = [this.#countAtOnce(filled), dtypeBytes[dtype]];
    for (let start = 0; start < total; start += atOnce) {
      this.#reset();
      const end = Math.min(start + atOnce, total);
      const target = memory.subarray(start * size, end * size);
      const floats = dtype === 'F32' ? viewAsFloats(target) : this.#scratch.floats(end - start);
      const wanted = runsOfRange(plan, { start, end });
      const own = runs.map((of) => composedRuns(of, wanted));
      const numFilled = own.flat().reduce((sum, { length }) => sum + length, 0);
      if (numFilled < floats.length) floats.fill(0);
      for (const [position, { name }] of mapping.sources.entries()) {
        await fillRuns({
          runs: own[position]!,
          target: floats,
          spare: this.#scratch.floats,
          read: (range, values) => this.#read({ name: this.#fileNames.get(name)!, range, values, dtype }),
        });
      }
      if (dtype !== 'F32') target.set(encodeFloats(floats, dtype));
    }
  }

  /** Fills a tensor's box after reading all sources of the tensor completely. */
  async #fillWhole({ tensor, mapping, dtype }: Filled, memory: Uint8Array): Promise<void> {
    this.#reset();
    const read: Float32Array[] = [];
    for (const { name, shape } of mapping.sources) {
      const values = this.#scratch.floats(shape.reduce((product, size) => product * size, 1));
      const range = { start: 0, end: values.length };
      await this.#read({ name: this.#fileNames.get(name)!, range, values, dtype });
      read.push(values);
    }
    const isWhole = dtype === 'F32' && tensor.slices.every(({ end }, dim) => end === tensor.globalShape[dim]);
    const floats: AllocateFloats = (length) =>
      isWhole && 4 * length === memory.length ? viewAsFloats(memory) : this.#scratch.floats(length);
    const bytes = encodeFloats(extractBox(mapping.toLogical(read, floats), tensor, floats), dtype);
    const isThere = bytes.buffer === memory.buffer && bytes.byteOffset === memory.byteOffset;
    if (!isThere) memory.set(bytes);
  }

  #reset(): void {
    this.#scratch.reset();
    this.#whole = undefined;
  }

  /** Reads a range of a tensor from the files into `values`. */
  async #read(options: {
    readonly name: string;
    readonly range: ValueRange;
    readonly values: Float32Array;
    readonly dtype: WritableDtype;
  }): Promise<void> {
    const { name, range, values } = options;
    const { bytes, dtype } = this.#weights.tensors.get(name)!;
    const numValues = bytes / dtypeBytes[dtype];
    if (values.length === numValues || this.#weights.readsRanges === true) {
      await this.#readDirectly(options);
      return;
    }
    if (this.#whole?.name !== name) {
      const whole = this.#scratch.floats(numValues);
      await this.#readDirectly({ ...options, range: { start: 0, end: numValues }, values: whole });
      this.#whole = { name, values: whole };
    }
    values.set(this.#whole.values.subarray(range.start, range.end));
  }

  async #readDirectly(options: {
    readonly name: string;
    readonly range: ValueRange;
    readonly values: Float32Array;
    readonly dtype: WritableDtype;
  }): Promise<void> {
    const { name, range, values, dtype } = options;
    const { dtype: stored } = this.#weights.tensors.get(name)!;
    // never returns here, because `resolveNames` has already rejected such a dtype
    if (!isReadableDtype(stored)) return;
    const isFloat32 = stored === 'F32';
    const target = isFloat32 ? viewAsBytes(values) : this.#scratch.bytes(values.length * dtypeBytes[stored]);
    const part = this.#weights.readsRanges === true ? { range } : {};
    const bytes = await this.#weights.read({ name, target, requireFinite: true, ...part });
    if (!isFloat32) decodeFloats(bytes, stored, () => values);
    // a value that is finite in the file may overflow in a smaller dtype such as float16
    if (overflows(stored, dtype)) this.#checkOverflow(values, { name, dtype, first: range.start });
  }

  /**
   * Rejects values that have overflowed in the dtype of the tensor.
   *
   * @throws CheckpointError MTL_NOT_FINITE, whose message contains the tensor's name in the file
   */
  #checkOverflow(
    values: Float32Array,
    { name, dtype, first }: { readonly name: string; readonly dtype: WritableDtype; readonly first: number },
  ): void {
    const slices = this.#weights.tensors.get(name)!.shape.map((size) => ({ start: 0, end: size }));
    const remedy = `the weights do not fit ${dtype}: take others, or compute in a wider dtype`;
    const check = { place: this.#weights.path, name, slices, remedy, exitCode: 2 } as const;
    checkValues(encodeFloats(values, dtype), { dtype, check, first });
  }
}

const viewAsFloats = ({ buffer, byteOffset, byteLength }: Uint8Array): Float32Array =>
  new Float32Array(buffer, byteOffset, byteLength / 4);

/**
 * Fills the given tensors, or slices of tensors, from opened files. Needs the same memory as {@link
 * MappedWeights}.
 */
export async function loadMappedWeights(options: {
  readonly weights: WeightFiles;
  readonly names: WeightNames;
  readonly tensors: readonly LogicalTensor[];
}): Promise<void> {
  const mapped = await MappedWeights.open(options);
  await mapped.load(options.tensors);
}
