import { Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import {
  type AttentionOptions,
  cast,
  type Device,
  type PackedSamples,
  permuteRows,
  Tensor,
  type TypedArray,
} from '@mtl/kernels';
import { type ChunkPair, type Chunks, chunkOptions, type RowOrder } from './chunks.js';
import type { AttendedCall } from './context-attention.js';

/**
 * Copies values to the device like `Tensor.from`. Recorded passes, which are launched again with changed
 * values, provide this function.
 */
export type Upload = (values: TypedArray, options: Parameters<typeof Tensor.from>[1]) => Tensor;

export interface UploadOptions {
  readonly device: Device;
  readonly upload?: Upload | undefined;
}

/** Copies a vector to the device. */
function uploaded(
  values: Int32Array | BigInt64Array,
  { device, upload = Tensor.from }: UploadOptions,
): Variable {
  const dtype = values instanceof Int32Array ? 'int32' : 'int64';
  return new Variable(upload(values, { shape: [values.length], dtype, device }), { requiresGradient: false });
}

/** The order of the rows of packed samples on several processes. */
interface PackedRowsOfProcesses {
  readonly group: ProcessGroup;
  /** The number of chunks of each process. */
  readonly perProcess: number;
  /**
   * The batch size B if the rows of activations are [own, B]. A chunk stores these rows transposed, as [B,
   * own]. Default: 1.
   */
  readonly columns?: number | undefined;
  /**
   * The position of each row in sequence order among the rows of all processes; undefined if both orders are
   * the same.
   */
  readonly places?: Int32Array | undefined;
}

function invertOrder(places: Int32Array): Int32Array {
  const inverse = new Int32Array(places.length);
  places.forEach((place, row) => {
    inverse[place] = row;
  });
  return inverse;
}

/** The order of packed rows. Its tables stay on the device until `release`. */
export class PackedRowOrder implements RowOrder {
  readonly group: ProcessGroup;
  readonly perProcess: number;
  readonly #columns: number;
  /** int32 [T]: for each row in one order, its position in the other order. */
  readonly #sources: { readonly ofSequences: Variable; readonly ofProcesses: Variable } | undefined;

  constructor({ group, perProcess, columns = 1, places }: PackedRowsOfProcesses, options: UploadOptions) {
    this.group = group;
    this.perProcess = perProcess;
    this.#columns = columns;
    this.#sources = places && {
      ofSequences: uploaded(places, options),
      ofProcesses: uploaded(invertOrder(places), options),
    };
  }

  enter(rows: Tensor): Tensor {
    if (this.#columns === 1) return rows.reshape(this.#flatShape(rows));
    using turned = this.#turned(rows);
    using copy = cast({ input: turned, dtype: rows.dtype });
    return copy.view({ shape: this.#flatShape(rows) });
  }

  into(target: Tensor, write: (rows: Tensor) => void): void {
    const { dtype, device } = target;
    if (this.#columns === 1) {
      using rows = target.reshape(this.#flatShape(target));
      write(rows);
      return;
    }
    using rows = Tensor.empty({ shape: this.#flatShape(target), dtype, device });
    write(rows);
    using turned = this.#turned(target);
    using input = rows.view({ shape: turned.shape });
    cast({ output: turned, input });
  }

  /** Returns the shape [own * B, ...] of rows [own, B, ...]. */
  #flatShape({ shape: [numRows, columns, ...features] }: Tensor): number[] {
    return [numRows! * columns!, ...features];
  }

  /** Returns a view of [own, B, ...] as [chunks, B, own rows of a chunk, ...]. */
  #turned(rows: Tensor): Tensor {
    const [numRows, columns, ...features] = rows.shape as [number, number, ...number[]];
    const [ofRow, ofColumn, ...ofFeatures] = rows.strides as [number, number, ...number[]];
    const ofChunk = numRows / this.perProcess;
    return rows.strided({
      shape: [this.perProcess, columns, ofChunk, ...features],
      strides: [ofChunk * ofRow, ofColumn, ofRow, ...ofFeatures],
    });
  }

  inSequenceOrder(byProcess: Tensor): Tensor {
    return this.#permuted(byProcess, this.#sources?.ofSequences.tensor);
  }

  inProcessOrder(inSequence: Tensor): Tensor {
    return this.#permuted(inSequence, this.#sources?.ofProcesses.tensor);
  }

  #permuted(rows: Tensor, sources: Tensor | undefined): Tensor {
    const { shape, dtype, device } = rows;
    if (sources === undefined) return rows.view({ shape });
    const output = Tensor.empty({ shape, dtype, device });
    const flat = [shape[0]!, rows.size / shape[0]!];
    using to = output.reshape(flat);
    using input = rows.reshape(flat);
    permuteRows({ output: to, input, sources, topK: 1 });
    return output;
  }

  /** Releases the tensors on the device. */
  release(): void {
    for (const variable of Object.values(this.#sources ?? {})) variable.release();
  }
}

/** The part of a sample in a chunk: positions [start, end) of the sequence. */
export type SampleSpan = readonly [start: number, end: number];

/**
 * Packed samples that are divided over processes, described by the part of each sample that each chunk
 * contains.
 */
export interface PackedParts extends Omit<PackedRowsOfProcesses, 'perProcess'> {
  /** c: the number of rows in every chunk; rows after the last sample belong to no sample. */
  readonly chunkSize: number;
  /** `parts[chunk][sample]` is the section of the sample that the chunk contains. */
  readonly parts: ReadonlyArray<readonly SampleSpan[]>;
  /** Returns the chunks of a process, in the order of its rows. */
  readonly ofRank: (rank: number) => readonly number[];
  /** The number that identifies each sample. Random masks are computed from it. */
  readonly sampleNumbers: readonly bigint[];
}

/** The rows of the samples in one chunk, or of all samples. */
interface Ranges {
  readonly lengths: readonly number[];
  /** An upper bound for the number of rows in one part. */
  readonly longest: number;
  /** int32 [N + 1]: the first row of each sample's part. */
  readonly starts: Tensor;
  /** int32 [N]: the position of each part's first row in its sequence. */
  readonly first: Tensor;
}

/** Returns [0, l0, l0 + l1, ...]. */
function computeStarts(lengths: readonly number[]): number[] {
  const starts = [0];
  for (const length of lengths) starts.push(starts.at(-1)! + length);
  return starts;
}

/**
 * Chunks of packed samples: documents, each divided separately, or samples with bidirectional
 * attention.
 */
export class PackedChunks extends PackedRowOrder implements Chunks {
  readonly shape: readonly [number];
  readonly ofRank: (rank: number) => readonly number[];
  readonly #chunks: readonly Ranges[];
  readonly #all: Ranges;
  /** int64 [N] */
  readonly #samples: Variable;
  readonly #numScores = new Map<string, number>();
  readonly #variables: Variable[] = [];

  /** Copies to the device the tensors that attention reads. */
  constructor(packed: PackedParts, options: UploadOptions) {
    const { group, chunkSize, parts, ofRank, sampleNumbers } = packed;
    super({ ...packed, perProcess: parts.length / group.size }, options);
    this.ofRank = ofRank;
    this.shape = [chunkSize];
    const copied = (values: Int32Array | BigInt64Array): Variable => {
      const variable = uploaded(values, options);
      this.#variables.push(variable);
      return variable;
    };
    const makeRanges = (of: readonly SampleSpan[], numRows: number): Ranges => {
      const lengths = of.map(([start, end]) => end - start);
      return {
        lengths,
        // recorded passes are launched again with different samples, which may be longer, so the upper bound
        // is the total number of rows
        longest: options.upload === undefined ? Math.max(0, ...lengths) : numRows,
        starts: copied(Int32Array.from(computeStarts(lengths))).tensor,
        first: copied(Int32Array.from(of, ([start]) => start)).tensor,
      };
    };
    this.#chunks = parts.map((of) => makeRanges(of, chunkSize));
    const whole = parts[0]!.map(([start], sample): SampleSpan => [start, parts.at(-1)![sample]![1]]);
    this.#all = makeRanges(whole, parts.length * chunkSize);
    this.#samples = copied(BigInt64Array.from(sampleNumbers));
  }

  statisticsShape(numHeads: number): readonly number[] {
    return [numHeads, ...this.shape];
  }

  mayBeSeen({ visibility: { causal = false } = {} }: AttendedCall, { queries, keys }: ChunkPair): boolean {
    // the pair of a chunk with itself must always be computed, because only this pair writes the zeros of
    // rows that belong to no sample
    if (queries === keys) return true;
    if (causal && keys > queries) return false;
    return this.#countScores(this.#chunks[queries]!, this.#chunks[keys]!, `${queries} ${keys}`) > 0;
  }

  optionsOfPair(call: AttendedCall, { queries, keys }: ChunkPair): AttentionOptions {
    const [ofQueries, ofKeys] = [this.#chunks[queries]!, this.#chunks[keys]!];
    return this.#options(call, {
      ...this.#samplesIn(ofKeys, ofQueries, `${queries} ${keys}`),
      queries: ofQueries,
    });
  }

  optionsOfAll(
    call: AttendedCall,
    queries: number,
  ): { readonly numRows: number; readonly options: AttentionOptions } {
    const ofQueries = this.#chunks[queries]!;
    return {
      numRows: this.#chunks.length * this.shape[0],
      options: this.#options(call, {
        ...this.#samplesIn(this.#all, ofQueries, `${queries}`),
        queries: ofQueries,
      }),
    };
  }

  wholeStatisticsShape(numHeads: number): readonly number[] {
    return [numHeads, this.#chunks.length * this.shape[0]];
  }

  wholeOptions(call: AttendedCall): AttentionOptions {
    const { first, ...samples } = this.#samplesIn(this.#all, this.#all, '');
    // positions are needed only for dropout masks
    return this.#options(call, { ...samples, ...(call.dropout !== undefined && { first }) });
  }

  #options(call: AttendedCall, packed: PackedSamples): AttentionOptions {
    return chunkOptions(call, { visibility: { packed }, samples: this.#samples.tensor });
  }

  /** Describes the samples to which `keys` belong. `name` identifies the pair of keys and queries. */
  #samplesIn(keys: Ranges, queries: Ranges, name: string): PackedSamples & Pick<Ranges, 'first'> {
    const { starts, longest, first } = keys;
    return { starts, longest, first, numScores: this.#countScores(queries, keys, name) };
  }

  /**
   * Returns the number of scores: the number of queries times the number of keys, summed over all samples.
   */
  #countScores(queries: Ranges, keys: Ranges, name: string): number {
    let numScores = this.#numScores.get(name);
    if (numScores === undefined) {
      numScores = queries.lengths.reduce((sum, length, sample) => sum + length * keys.lengths[sample]!, 0);
      this.#numScores.set(name, numScores);
    }
    return numScores;
  }

  override release(): void {
    super.release();
    for (const variable of this.#variables) variable.release();
  }
}
