import type { Variable } from '@mtl/autograd';
import type { Slice } from '@mtl/kernels';
import type { LoadedBatch, LossFactors, Upload } from '@mtl/pipeline';
import type { RoutingOfMicroBatch } from '../experts/routing-of-micro-batch.js';
import type { LayerLosses } from './layer-losses.js';
import type { PositionTables } from './position-tables.js';
import type { RowCoordinate, RowCoordinates } from './row-coordinates.js';
import type { OwnRows } from './sequence-partition.js';

/**
 * The size of a micro-batch on the host; more of it where the rows of activations depend on it
 * (`activationRows`).
 */
export interface BatchSize {
  readonly batchSize: number;
  readonly sequenceLength: number;
}

/** What every micro-batch has on the device. */
export interface DeviceSamples {
  /** int64 [B]: global sample numbers, which random masks depend on. */
  readonly samples: Variable;
  readonly rows: RowCoordinates;
  /** Those of this rank, and how their queries see keys. */
  readonly ownRows: OwnRows;
  /** As that of `LoadedBatch`. */
  readonly variant?: string | undefined;
  release(): void;
}

/**
 * The positions of the sequence (the rows, where samples are packed) that this process computes with between
 * the tensor-parallel regions of a call.
 */
export interface Positions extends Slice {
  readonly sequenceParallel: boolean;
}

/** What the layers of a micro-batch need to know of it. */
export interface StageCall<OnDevice extends DeviceSamples> {
  readonly batch: OnDevice;
  readonly positions: Positions;
  readonly training: boolean;
  /** Takes the losses of layers; default: they make none. */
  readonly layerLosses?: LayerLosses | undefined;
  /** What its routers keep. */
  readonly routing?: RoutingOfMicroBatch | undefined;
}

/** What a model copies to the device, and through what. */
export interface ToDevice<Batch> {
  readonly batch: Batch;
  readonly lossFactors: LossFactors;
  /** The coordinates of rows that its passes read. */
  readonly reads: ReadonlySet<RowCoordinate>;
  readonly tables: PositionTables;
  /** Whether there is dropout. */
  readonly training: boolean;
  readonly upload?: Upload | undefined;
}

/** A micro-batch on the device. */
export interface LoadedMicroBatch<OnDevice> extends LoadedBatch {
  readonly batch: OnDevice;
  readonly layerLosses: LayerLosses;
  readonly routing: RoutingOfMicroBatch;
}
