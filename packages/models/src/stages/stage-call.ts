import type { Variable } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import type { LoadedBatch, LossFactors, Upload } from '@mtl/pipeline';
import type { Positions } from '../blocks/layer-sharding.js';
import type { PositionTables } from '../blocks/position-tables.js';
import type { RowCoordinate, RowCoordinates } from '../blocks/row-coordinates.js';
import type { OwnRows } from '../blocks/sequence-partition.js';
import type { LayerLosses } from '../blocks/stage-losses.js';
import type { RoutingOfMicroBatch } from '../routing/routing-of-micro-batch.js';

/**
 * The size of a micro-batch on the host. Models whose rows of activations depend on more (`activationRows`)
 * add properties.
 */
export interface BatchSize {
  readonly batchSize: number;
  readonly sequenceLength: number;
}

/** The part that every micro-batch has on the device. */
export interface DeviceSamples {
  /** int64 [B]: global sample numbers, which random masks depend on. */
  readonly samples: Variable;
  readonly rows: RowCoordinates;
  /** The rows of this rank, and how their queries see keys. */
  readonly ownRows: OwnRows;
  /** The difference between micro-batches of one shape: see `LoadedBatch`. */
  readonly variant?: string | undefined;
  release(): void;
}

/** The values that layers need of a micro-batch. */
export interface StageCall<OnDevice extends DeviceSamples> {
  readonly batch: OnDevice;
  readonly positions: Positions;
  readonly training: boolean;
  /** Collects the losses of layers; default: layers have no losses. */
  readonly layerLosses?: LayerLosses | undefined;
  /** The state that the routers keep. */
  readonly routing?: RoutingOfMicroBatch | undefined;
}

/** A batch that a model copies to the device, with the options for the copy. */
export interface ToDevice<Batch> {
  readonly batch: Batch;
  readonly lossFactors: LossFactors;
  /** The coordinates of rows that its passes read. */
  readonly reads: ReadonlySet<RowCoordinate>;
  readonly tables: PositionTables;
  /** True if there is dropout. */
  readonly training: boolean;
  readonly upload?: Upload | undefined;
}

/** A micro-batch on the device. */
export interface LoadedMicroBatch<OnDevice> extends LoadedBatch {
  readonly batch: OnDevice;
  readonly layerLosses: LayerLosses;
  readonly routing: RoutingOfMicroBatch;
}

/**
 * Returns the values that the first or the last stage needs of a micro-batch.
 * @throws UsageError MTL_STAGE where it got an outline only
 */
export function neededTokens<Values>(values: Values | undefined): Values {
  if (values !== undefined) return values;
  throw new UsageError('MTL_STAGE', 'the first and the last stage need the tokens of a micro-batch', {
    expected: 'a complete batch: an outline is enough for the stages between them',
  });
}
