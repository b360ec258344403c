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
 * The size of a micro-batch on the host. A model whose `activationRows` depends on more values extends this
 * type.
 */
export interface BatchSize {
  readonly batchSize: number;
  readonly sequenceLength: number;
}

/** The device fields that the micro-batches of all models have in common. */
export interface DeviceSamples {
  /** int64 [B]: the global sample indices. Random masks depend on them. */
  readonly samples: Variable;
  readonly rows: RowCoordinates;
  /** This rank's rows. They include the keys that the rows' queries can attend to. */
  readonly ownRows: OwnRows;
  /**
   * A string that distinguishes forward and backward passes over micro-batches of equal shapes (see
   * `LoadedBatch`).
   */
  readonly variant?: string | undefined;
  release(): void;
}

/** The micro-batch values that the layers need. */
export interface StageCall<OnDevice extends DeviceSamples> {
  readonly batch: OnDevice;
  readonly positions: Positions;
  readonly training: boolean;
  /** Collects the layers' losses. Undefined if the layers have no losses. */
  readonly layerLosses?: LayerLosses | undefined;
  /** The state that routers keep for this micro-batch. */
  readonly routing?: RoutingOfMicroBatch | undefined;
}

/** A batch to copy to the device, and the options for the copy. */
export interface ToDevice<Batch> {
  readonly batch: Batch;
  readonly lossFactors: LossFactors;
  /** The row coordinates that the passes read. */
  readonly reads: ReadonlySet<RowCoordinate>;
  readonly tables: PositionTables;
  /** True if dropout is applied. */
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
 * Returns `values`, which the first or the last stage needs from a micro-batch.
 * @throws UsageError MTL_STAGE if the stage got only an outline (a batch without tokens)
 */
export function neededTokens<Values>(values: Values | undefined): Values {
  if (values !== undefined) return values;
  throw new UsageError('MTL_STAGE', 'the first and the last stage need the tokens of a micro-batch', {
    expected: 'a complete batch: an outline is enough for the stages between them',
  });
}
