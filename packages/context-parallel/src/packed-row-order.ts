import { Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { cast, type Device, permuteRows, Tensor, type TypedArray } from '@mtl/kernels';
import type { RowOrder } from './chunks.js';

/** Copies values to the device, as `Tensor.from`, where passes are launched again with other values. */
export type Upload = (values: TypedArray, options: Parameters<typeof Tensor.from>[1]) => Tensor;

export interface UploadOptions {
  readonly device: Device;
  readonly upload?: Upload | undefined;
}

/** A vector on the device. */
export function uploaded(
  values: Int32Array | BigInt64Array,
  { device, upload = Tensor.from }: UploadOptions,
): Variable {
  const dtype = values instanceof Int32Array ? 'int32' : 'int64';
  return new Variable(upload(values, { shape: [values.length], dtype, device }), { requiresGradient: false });
}

/** Rows of packed samples among those of several processes. */
export interface PackedRowsOfProcesses {
  readonly group: ProcessGroup;
  /** How many chunks a process has. */
  readonly perProcess: number;
  /** B, where the rows of activations are [own, B] and those of a chunk are turned: [B, own]. Default: 1. */
  readonly columns?: number | undefined;
  /**
   * The place of each row, one sequence after the other, among the rows of all processes; undefined where the
   * order is the same.
   */
  readonly places?: Int32Array | undefined;
}

function inverseOf(places: Int32Array): Int32Array {
  const inverse = new Int32Array(places.length);
  places.forEach((place, row) => {
    inverse[place] = row;
  });
  return inverse;
}

/** The order of packed rows; its tables are on the device until they are released. */
export class PackedRowOrder implements RowOrder {
  readonly group: ProcessGroup;
  readonly perProcess: number;
  readonly #columns: number;
  /** int32 [T]: where each row of one order is in the other. */
  readonly #sources: { readonly ofSequences: Variable; readonly ofProcesses: Variable } | undefined;

  constructor({ group, perProcess, columns = 1, places }: PackedRowsOfProcesses, options: UploadOptions) {
    this.group = group;
    this.perProcess = perProcess;
    this.#columns = columns;
    this.#sources = places && {
      ofSequences: uploaded(places, options),
      ofProcesses: uploaded(inverseOf(places), options),
    };
  }

  enter(rows: Tensor): Tensor {
    const [numRows, width] = [rows.dim(0), rows.dim(-1)];
    if (this.#columns === 1) return rows.view({ shape: [numRows, width] });
    using turned = this.#turned(rows);
    using copy = cast({ input: turned, dtype: rows.dtype });
    return copy.view({ shape: [numRows * this.#columns, width] });
  }

  leave(rows: Tensor): Tensor {
    const [total, width] = [rows.dim(0), rows.dim(-1)];
    const { dtype, device } = rows;
    const shape = [total / this.#columns, this.#columns, width];
    if (this.#columns === 1) return rows.view({ shape });
    const output = Tensor.empty({ shape, dtype, device });
    using turned = this.#turned(output);
    using input = rows.view({ shape: turned.shape });
    cast({ output: turned, input });
    return output;
  }

  /** [own, B, W] as [chunks, B, own of a chunk, W], a view. */
  #turned(rows: Tensor): Tensor {
    const [numRows, columns, width] = rows.shape as [number, number, number];
    const ofChunk = numRows / this.perProcess;
    return rows.strided({
      shape: [this.perProcess, columns, ofChunk, width],
      strides: [ofChunk * columns * width, width, columns * width, 1],
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

  /** Gives back what is on the device. */
  release(): void {
    for (const variable of Object.values(this.#sources ?? {})) variable.release();
  }
}
