import { Variable } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import type { Device } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import type { Upload } from '@mtl/pipeline';
import type { PositionTable, PositionTables } from './position-tables.js';
import { uploadConstant } from './upload-constant.js';

/**
 * A coordinate of activation rows, which are [S, B] for a micro-batch and [T, 1] for packed samples:
 * - `positions`, int32: the position of each row in its sample
 * - `samples`, int64: the global index of each row's sample
 * - `regionPositions`, `regionSamples`: the same coordinates, for all rows inside the tensor-parallel regions
 * - a position table, float32 [P, R]: one row for every possible position
 *
 * `positions` and `samples` cover only the rows that this rank computes between the tensor-parallel regions
 * (its shard under sequence parallelism).
 */
export type RowCoordinate = 'positions' | 'samples' | 'regionPositions' | 'regionSamples' | PositionTable;

/** The rows of a micro-batch on the host. Methods take flat indices into [S, B]. */
interface HostRows {
  /** [S, B] */
  readonly shape: readonly [rows: number, columns: number];
  /** P: all positions are smaller than this value. */
  readonly numPositions: number;
  findPosition(index: number): number;
  findSample(index: number): bigint;
}

interface UploadRowsOptions {
  /** The coordinates that the forward and backward passes read. Only these are uploaded. */
  readonly reads: ReadonlySet<RowCoordinate>;
  /** The position tables for the coordinates in `reads`. May be undefined if `reads` contains no table. */
  readonly tables?: PositionTables | undefined;
  /** The slice of the S rows that this rank computes between the tensor-parallel regions. */
  readonly own: Slice;
  readonly device: Device;
  readonly upload?: Upload | undefined;
}

/** The row coordinates that the forward and backward passes read, stored on the device. */
export class RowCoordinates {
  readonly #variables: ReadonlyMap<string, Variable>;

  /**
   * @param variables the values of each coordinate, by the coordinate's name. This object owns them and
   * releases them
   */
  constructor(variables: ReadonlyMap<string, Variable> = new Map()) {
    this.#variables = variables;
  }

  static upload(
    { shape: [rows, columns], numPositions, findPosition, findSample }: HostRows,
    { reads, tables, own, device, upload }: UploadRowsOptions,
  ): RowCoordinates {
    const positions = ({ start, end }: Slice): Variable => {
      const values = new Int32Array((end - start) * columns);
      for (let index = 0; index < values.length; index++)
        values[index] = findPosition(start * columns + index);
      return uploadConstant(values, { shape: [end - start, columns], dtype: 'int32', device, upload });
    };
    const samples = ({ start, end }: Slice): Variable => {
      const values = new BigInt64Array((end - start) * columns);
      for (let index = 0; index < values.length; index++) values[index] = findSample(start * columns + index);
      return uploadConstant(values, { shape: [end - start, columns], dtype: 'int64', device, upload });
    };
    const chooseValues = (coordinate: RowCoordinate): Variable => {
      if (coordinate === 'positions') return positions(own);
      if (coordinate === 'samples') return samples(own);
      if (coordinate === 'regionPositions') return positions({ start: 0, end: rows });
      if (coordinate === 'regionSamples') return samples({ start: 0, end: rows });
      return new Variable(tables!.view(coordinate, numPositions), { requiresGradient: false });
    };
    const byName = new Map([...reads].map((coordinate) => [nameCoordinate(coordinate), coordinate] as const));
    return new RowCoordinates(
      new Map([...byName].map(([name, coordinate]) => [name, chooseValues(coordinate)] as const)),
    );
  }

  /** @throws UsageError MTL_STAGE if `coordinate` was not declared in `reads` */
  of(coordinate: RowCoordinate): Variable {
    const what = nameCoordinate(coordinate);
    const variable = this.#variables.get(what);
    if (variable !== undefined) return variable;
    throw new UsageError('MTL_STAGE', `a layer reads the ${what} of rows, which it does not declare`, {
      expected: `one of ${[...this.#variables.keys()].join(', ') || 'none'}`,
      remedy: `add '${what}' to what the sublayer reads (Sublayer.reads)`,
    });
  }

  release(): void {
    for (const variable of this.#variables.values()) variable.release();
  }
}

/** Returns the name of a coordinate. Equal names mean equal coordinates. */
const nameCoordinate = (coordinate: RowCoordinate): string =>
  typeof coordinate === 'string' ? coordinate : coordinate.name;
