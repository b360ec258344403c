import type { Parameter } from '@mtl/autograd';
import { type JsonObject, type LogicalTensor, slicesOfFlatRange, type ValueLimit } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { Slice, Tensor } from '@mtl/kernels';
import type { LossScaler, ModelOptimizer, ParameterRange } from '@mtl/optimizer';
import { EarlyStopping, type EarlyStoppingState } from './early-stopping.js';
import { frozenTensors } from './frozen-tensors.js';
import { replicaNumbers } from './replica-numbers.js';
import { SpikeGuard, type SpikeGuardState } from './spikes/spike-guard.js';
import type { TrainingProgress } from './training-progress.js';

const optimizerPrefix = 'optimizer.';

/** Whether a tensor of a checkpoint is optimizer state, which --no-load-optim and --finetune leave alone. */
export function isOptimizerTensor(name: string): boolean {
  return name.startsWith(optimizerPrefix);
}

/** The parameter that a tensor of a checkpoint belongs to. */
export function parameterNameOf(name: string): string {
  return isOptimizerTensor(name) ? name.slice(name.indexOf('.', optimizerPrefix.length) + 1) : name;
}

/**
 * Complete float32 values in a flat buffer under a logical name: a box of the parameter that lies together
 * there.
 */
interface StoredBox {
  readonly name: string;
  readonly parameter: Parameter;
  readonly slices: readonly Slice[];
  readonly buffer: Tensor;
  /** First element in the buffer. */
  readonly start: number;
  readonly length: number;
  readonly replica: number;
  readonly limit?: ValueLimit | undefined;
}

/** Elements [start, end) of the flat buffers, whose values begin at `first` in another one. */
interface PlacedPart {
  readonly start: number;
  readonly end: number;
  readonly first: number;
}

function logicalTensor({
  name,
  parameter,
  slices,
  buffer,
  start,
  length,
  replica,
  limit,
}: StoredBox): LogicalTensor {
  const withView = <T>(body: (view: Tensor) => T): T => {
    using view = buffer.view({ offset: start, shape: [length] });
    return body(view);
  };
  return {
    name,
    slices,
    replica,
    ...(limit === undefined ? {} : { limit }),
    dtype: 'F32',
    globalShape: parameter.globalShape,
    read: () =>
      withView((view) => {
        const values = view.read<'float32'>();
        return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
      }),
    readInto: (target) => withView((view) => view.readInto(target)),
    write: (bytes) => withView((view) => view.write(bytes)),
  };
}

/**
 * What this rank holds of a buffer with a value for each element of its owned ranges, or of those of some
 * parameters: one box for a parameter that it holds whole (or all of its tensor-parallel slice), a few for
 * one that ranks of a distributed optimizer share.
 */
function ownedTensors(
  optimizer: ModelOptimizer,
  options: {
    readonly prefix: string;
    readonly buffer: Tensor;
    /** Where parts of a parameter are in the buffer; undefined where it has no values there. */
    readonly partsOf: (range: ParameterRange) => readonly PlacedPart[] | undefined;
    readonly limit?: ValueLimit;
  },
): LogicalTensor[] {
  const { buffers } = optimizer;
  const replicas = replicaNumbers(
    buffers.ranges.map(({ parameter }) => parameter),
    { groups: optimizer.groups, sharing: buffers.sharing },
  );
  return buffers.ranges.flatMap((range) => {
    const { parameter } = range;
    const parts = options.partsOf(range);
    if (parts === undefined) return [];
    const all = parameter.slices;
    const box = {
      name: options.prefix + parameter.name,
      parameter,
      buffer: options.buffer,
      limit: options.limit,
      replica: replicas.get(parameter)!,
    };
    const boxes = parts.flatMap((part) =>
      slicesOfFlatRange({
        slices: all,
        start: part.start - range.start,
        end: part.end - range.start,
      }).map(({ slices, offset, length }) =>
        logicalTensor({ ...box, slices, start: part.first + offset, length }),
      ),
    );
    if (boxes.length > 0) return boxes;
    // other ranks hold it: an empty box declares it
    const none = all.map(({ start }) => ({ start, end: start }));
    return [logicalTensor({ ...box, slices: none, start: 0, length: 0 })];
  });
}

/**
 * The magnitude from which on a weight is as useless as infinity: the model's copy of it is infinite in
 * float16, its square in float32 and bfloat16, so that no forward pass computes a finite loss.
 */
function weightLimit({ buffers }: ModelOptimizer): ValueLimit {
  return buffers.model.dtype === 'float16'
    ? { magnitude: 65520, why: 'which overflows in float16' }
    : { magnitude: 2 ** 64, why: 'whose square overflows in float32' };
}

/**
 * Master weights under their logical names: what this rank holds of them. Of frozen parameters, which have
 * none, the values that the model computes with, in float32 as well: the same after a round trip.
 */
export function weightTensors(optimizer: ModelOptimizer): LogicalTensor[] {
  const { buffers } = optimizer;
  const limit = weightLimit(optimizer);
  const trained = ownedTensors(optimizer, {
    prefix: '',
    buffer: buffers.master,
    partsOf: (range) => buffers.ownedPartsOf(range).map((part) => ({ ...part, first: part.masterStart })),
    limit,
  });
  return [...trained, ...frozenTensors(optimizer, { limit })];
}

/**
 * Reduced main gradients as `gradient.NAME`: what this rank holds of them between `reduceGradients` and
 * `step`.
 */
export function gradientTensors(optimizer: ModelOptimizer): LogicalTensor[] {
  const { buffers } = optimizer;
  return ownedTensors(optimizer, {
    prefix: 'gradient.',
    buffer: buffers.gradients,
    partsOf: (range) => buffers.ownedPartsOf(range).map((part) => ({ ...part, first: part.start })),
  });
}

/**
 * The states of the optimizer as `optimizer.STATE.NAME` (AdamW: `exp_avg` and `exp_avg_sq`, Muon:
 * `momentum_buffer`): what this rank holds of them. States one after the other, each in the order of the
 * parameters, whichever rules keep it: a resumed run may have more rules than the one before, and writes the
 * same bytes.
 */
export function optimizerTensors(optimizer: ModelOptimizer): LogicalTensor[] {
  const places = new Map(weightTensors(optimizer).map(({ name }, place) => [name, place]));
  const names = [...new Set(optimizer.state.map(({ name }) => name))];
  return names.flatMap((stateName) => {
    const prefix = `${optimizerPrefix}${stateName}.`;
    const placeOf = ({ name }: LogicalTensor): number => places.get(name.slice(prefix.length))!;
    return optimizer.state
      .filter(({ name }) => name === stateName)
      .flatMap(({ buffer, partsOf }) =>
        ownedTensors(optimizer, {
          prefix,
          buffer,
          partsOf: (range) => partsOf(range)?.map((part) => ({ ...part, first: part.stateStart })),
        }),
      )
      .sort((one, other) => placeOf(one) - placeOf(other));
  });
}

/**
 * What a checkpoint holds in addition to tensors. Random numbers are counter-based: the seed in the
 * configuration is all.
 */
export interface TrainingState {
  readonly progress: TrainingProgress;
  readonly optimizerSteps: number;
  readonly lossScaler: {
    readonly scale: number;
    readonly growthTracker: number;
    readonly hysteresisTracker: number;
  };
  /** Of a run that may end early. */
  readonly earlyStopping?: EarlyStoppingState;
  /** Of a run that notices spikes. */
  readonly spikes?: SpikeGuardState;
  readonly configuration: JsonObject;
}

export function trainingState(options: {
  readonly progress: TrainingProgress;
  readonly optimizer: ModelOptimizer;
  readonly lossScaler: LossScaler;
  readonly earlyStopping?: EarlyStopping | undefined;
  readonly spikeGuard?: SpikeGuard | undefined;
  readonly configuration: JsonObject;
}): JsonObject {
  const { progress, optimizer, lossScaler, earlyStopping, spikeGuard, configuration } = options;
  return {
    progress: { ...progress },
    optimizerSteps: optimizer.numSteps,
    lossScaler: { ...lossScaler.state() },
    ...(earlyStopping === undefined ? {} : { earlyStopping: { ...earlyStopping.state } }),
    ...(spikeGuard === undefined ? {} : { spikes: { ...spikeGuard.state } }),
    configuration,
  };
}

/** The training state in a checkpoint's manifest. */
export function readTrainingState(state: JsonObject, path: string): TrainingState {
  const read = state as unknown as TrainingState;
  const { progress, lossScaler, configuration, optimizerSteps, earlyStopping, spikes } = read;
  const counts = [progress?.iteration, progress?.consumedSamples, progress?.consumedTokens, optimizerSteps];
  const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
  const trackers = [lossScaler?.growthTracker, lossScaler?.hysteresisTracker];
  const known =
    counts.every(isCount) &&
    (earlyStopping === undefined || EarlyStopping.isState(earlyStopping)) &&
    (spikes === undefined || SpikeGuard.isState(spikes)) &&
    typeof lossScaler?.scale === 'number' &&
    trackers.every(Number.isSafeInteger) &&
    typeof configuration === 'object' &&
    configuration !== null;
  if (known) return read;
  throw new CheckpointError('MTL_CHECKPOINT_STATE', `${path} does not contain the state of a training run`, {
    remedy: 'use --finetune to take only the weights',
    exitCode: 2,
  });
}
