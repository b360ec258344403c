import type { Parameter } from '@mtl/autograd';
import {
  Checkpoint,
  type JsonObject,
  type LogicalTensor,
  loadCheckpoint,
  slicesOfFlatRange,
  type ValueLimit,
} from '@mtl/checkpoint';
import type { ProcessGroup } from '@mtl/comm';
import { CheckpointError } from '@mtl/errors';
import { cast, Tensor } from '@mtl/kernels';
import type { MeshAxis } from '@mtl/layout';
import {
  copiesAlong,
  type FlatRange,
  type LossScaler,
  type ModelOptimizer,
  ownedPartsOf,
  type ParallelGroups,
  type ParameterRange,
  type ParameterStore,
} from '@mtl/optimizer';
import type { Extensions } from './extensions/extensions.js';
import { isCount } from './extensions/trainer-extension.js';
import type { TrainingProgress } from './metrics/training-reports.js';

const optimizerPrefix = 'optimizer.';

/**
 * Tells whether a tensor of a checkpoint is optimizer state, which --no-load-optim and --finetune leave
 * alone.
 */
export function isOptimizerTensor(name: string): boolean {
  return name.startsWith(optimizerPrefix);
}

/** The parameter that a tensor of a checkpoint belongs to. */
export function parameterNameOf(name: string): string {
  return isOptimizerTensor(name) ? name.slice(name.indexOf('.', optimizerPrefix.length) + 1) : name;
}

/** Values that this rank holds of a parameter, in [start, end) of the store. */
interface HeldPart extends FlatRange {
  /** [end - start] float32; the caller's to dispose of. */
  readonly view: () => Tensor;
}

/** The tensor of a checkpoint that is a box of a parameter, whose values lie together. */
function logicalTensor({
  view,
  device,
  ...box
}: Pick<LogicalTensor, 'name' | 'slices' | 'replica' | 'globalShape' | 'limit'> &
  Pick<HeldPart, 'view'> &
  Pick<ParameterStore, 'device'>): LogicalTensor {
  const withMemory: LogicalTensor['withMemory'] = async (fill) => {
    using tensor = view();
    await tensor.withMemory(fill);
  };
  return {
    ...(device === 'cpu' ? { withMemory } : {}),
    ...box,
    dtype: 'F32',
    read: () => {
      using tensor = view();
      const values = tensor.read<'float32'>();
      return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    },
    readInto: (target) => {
      using tensor = view();
      tensor.readInto(target);
    },
    write: (bytes) => {
      using tensor = view();
      tensor.write(bytes);
    },
  };
}

/**
 * Returns what this rank holds of values of a store's parameters: one box for a parameter that it holds whole
 * (or all of its tensor-parallel slice), a few for one that ranks of the store share.
 */
function heldTensors(
  store: ParameterStore,
  options: {
    readonly groups: ParallelGroups;
    readonly prefix: string;
    /** Undefined for a parameter that has no such values. */
    readonly partsOf: (range: ParameterRange) => readonly HeldPart[] | undefined;
    readonly limit?: ValueLimit;
  },
): LogicalTensor[] {
  const { groups, prefix, partsOf, limit } = options;
  const parameters = store.ranges.map(({ parameter }) => parameter);
  const replicas = replicaNumbers(parameters, { ...store, groups });
  return store.ranges.flatMap((range) => {
    const { parameter } = range;
    const parts = partsOf(range);
    if (parts === undefined) return [];
    const { globalShape, slices: all } = parameter;
    const box = {
      name: prefix + parameter.name,
      globalShape,
      device: store.device,
      replica: replicas.get(parameter)!,
      ...(limit === undefined ? {} : { limit }),
    };
    const boxes = parts.flatMap(({ start, end, view }) =>
      slicesOfFlatRange({ slices: all, start: start - range.start, end: end - range.start }).map(
        ({ slices, offset, length }) =>
          logicalTensor({
            ...box,
            slices,
            view: () => {
              using part = view();
              return part.view({ offset, shape: [length] });
            },
          }),
      ),
    );
    if (boxes.length > 0) return boxes;
    // other ranks hold it: an empty box declares it
    const none = all.map(({ start }) => ({ start, end: start }));
    const view = (): Tensor => Tensor.empty({ shape: [0], dtype: 'float32', device: store.device });
    return [logicalTensor({ ...box, slices: none, view })];
  });
}

/**
 * The magnitude from which on a weight is as useless as infinity: the model's copy of it is infinite in
 * float16, its square in float32 and bfloat16, so that no forward pass computes a finite loss.
 */
function weightLimit({ dtype }: ParameterStore): ValueLimit {
  return dtype === 'float16'
    ? { magnitude: 65520, why: 'which overflows in float16' }
    : { magnitude: 2 ** 64, why: 'whose square overflows in float32' };
}

/**
 * Master weights under their logical names: what this rank holds of them. Of frozen parameters, which have
 * none, the values that the model computes with, in float32 as well: the same after a round trip.
 */
export function weightTensors({ stores, groups }: ModelOptimizer): LogicalTensor[] {
  const ofStores = stores.map((store) => ({ store, groups, limit: weightLimit(store) }));
  const trained = ofStores.flatMap(({ store, ...options }) =>
    heldTensors(store, {
      ...options,
      prefix: '',
      partsOf: (range) =>
        ownedPartsOf(store, range).map((part) => ({ ...part, view: () => store.master(part) })),
    }),
  );
  return [...trained, ...ofStores.flatMap(({ store, ...options }) => frozenTensors(store, options))];
}

/**
 * Reduced main gradients as `gradient.NAME`: what this rank holds of them between `reduceGradients` and
 * `step`.
 */
export function gradientTensors({ stores, groups }: ModelOptimizer): LogicalTensor[] {
  return stores.flatMap((store) =>
    heldTensors(store, {
      groups,
      prefix: 'gradient.',
      partsOf: (range) =>
        ownedPartsOf(store, range).map((part) => ({ ...part, view: () => store.gradient(part) })),
    }),
  );
}

/**
 * The states of the optimizer as `optimizer.STATE.NAME` (AdamW: `exp_avg` and `exp_avg_sq`, Muon:
 * `momentum_buffer`): what this rank holds of them. States one after the other, each in the order of the
 * parameters, whichever rules keep it: a resumed run may have more rules than the one before, and writes the
 * same bytes. Then the states of parameters, such as those of matmul precisions, under names like these.
 */
export function optimizerTensors(optimizer: ModelOptimizer): LogicalTensor[] {
  const { groups, state } = optimizer;
  const places = new Map(weightTensors(optimizer).map(({ name }, place) => [name, place]));
  const names = [...new Set(state.map(({ name }) => name))];
  const ofRules = names.flatMap((stateName) => {
    const prefix = `${optimizerPrefix}${stateName}.`;
    const placeOf = ({ name }: LogicalTensor): number => places.get(name.slice(prefix.length))!;
    return state
      .filter(({ name }) => name === stateName)
      .flatMap(({ store, buffer, partsOf }) =>
        heldTensors(store, {
          groups,
          prefix,
          partsOf: (range) =>
            partsOf(range)?.map(({ start, end, stateStart }) => ({
              start,
              end,
              view: () => buffer.view({ offset: stateStart, shape: [end - start] }),
            })),
        }),
      )
      .sort((one, other) => placeOf(one) - placeOf(other));
  });
  return [...ofRules, ...statesOfParameters(optimizer)];
}

/** The states of parameters themselves, each whole on every rank that holds something of its parameter. */
function statesOfParameters({ stores, groups }: ModelOptimizer): LogicalTensor[] {
  return stores.flatMap(({ ranges, frozen, group }) =>
    [...ranges.map(({ parameter }) => parameter), ...frozen].flatMap((parameter) =>
      parameter.states.map(({ name, tensor }) =>
        logicalTensor({
          name: `${optimizerPrefix}${name}.${parameter.name}`,
          globalShape: tensor.shape,
          device: tensor.device,
          slices: tensor.shape.map((size) => ({ start: 0, end: size })),
          replica: replicaOfWhole(parameter, { groups, group }),
          view: () => tensor.view({ shape: tensor.shape }),
        }),
      ),
    ),
  );
}

/**
 * The content of a checkpoint in addition to tensors and the states of extensions. Random numbers are
 * counter-based: the seed in the configuration is all.
 */
interface TrainingState {
  readonly progress: TrainingProgress;
  readonly optimizerSteps: number;
  readonly lossScaler: {
    readonly scale: number;
    readonly growthTracker: number;
    readonly hysteresisTracker: number;
  };
  readonly configuration: JsonObject;
}

export function trainingState(options: {
  readonly progress: TrainingProgress;
  readonly optimizer: ModelOptimizer;
  readonly lossScaler: LossScaler;
  /** The extensions of the loop. Default: none. */
  readonly extensions?: Pick<Extensions, 'states'> | undefined;
  readonly configuration: JsonObject;
}): JsonObject {
  const { progress, optimizer, lossScaler, extensions, configuration } = options;
  return {
    progress: { ...progress },
    optimizerSteps: optimizer.numSteps,
    lossScaler: { ...lossScaler.state() },
    ...extensions?.states,
    configuration,
  };
}

/** The training state in a checkpoint's manifest. */
export function readTrainingState(state: JsonObject, path: string): TrainingState {
  const read = state as unknown as TrainingState;
  const { progress, lossScaler, configuration, optimizerSteps } = read;
  const counts = [progress?.iteration, progress?.consumedSamples, progress?.consumedTokens, optimizerSteps];
  const trackers = [lossScaler?.growthTracker, lossScaler?.hysteresisTracker];
  const known =
    counts.every(isCount) &&
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

interface RestoreCheckpointOptions {
  /** The path of a checkpoint of this run, in any layout. */
  readonly path: string;
  readonly optimizer: ModelOptimizer;
  readonly lossScaler: LossScaler;
}

/**
 * Takes weights, optimizer and loss scale from a checkpoint, in the middle of a run. Every rank must call it.
 *
 * @returns the progress of the checkpoint
 * @throws CheckpointError `MTL_CHECKPOINT_...`
 */
export async function restoreCheckpoint(options: RestoreCheckpointOptions): Promise<TrainingProgress> {
  const { path, optimizer, lossScaler } = options;
  const checkpoint = await Checkpoint.open(path);
  const state = readTrainingState(checkpoint.state, path);
  const tensors = [...weightTensors(optimizer), ...optimizerTensors(optimizer)];
  const own = new Set(tensors.map(({ name }) => name));
  await loadCheckpoint({ checkpoint, tensors, ignore: (name) => !own.has(name) });
  optimizer.refreshModel();
  optimizer.numSteps = state.optimizerSteps;
  lossScaler.loadState(state.lossScaler);
  return state.progress;
}

/** Elements that are converted at a time: more would show in the peak of the memory of a run. */
const elementsAtATime = 2 ** 20;

/**
 * The frozen parameters of a store under their logical names, in float32: what this rank holds of them. Every
 * rank of the store's group holds all of them; what is written is rounded to the model's dtype.
 */
function frozenTensors(
  { frozen, group }: ParameterStore,
  { groups, limit }: { readonly groups: ParallelGroups; readonly limit: ValueLimit },
): LogicalTensor[] {
  const replicas = replicaNumbers(frozen, { groups, group, isDivided: false });
  return frozen.map((parameter): LogicalTensor => {
    const readInto = (target: Uint8Array): void =>
      forParts(parameter.data, target, (part, floats, bytes) => {
        if (floats !== part) cast({ output: floats, input: part });
        floats.readInto(bytes);
      });
    return {
      name: parameter.name,
      slices: parameter.slices,
      replica: replicas.get(parameter)!,
      limit,
      dtype: 'F32',
      globalShape: parameter.globalShape,
      readInto,
      read: () => {
        const bytes = new Uint8Array(parameter.size * Float32Array.BYTES_PER_ELEMENT);
        readInto(bytes);
        return bytes;
      },
      write: (values) =>
        forParts(parameter.data, values, (part, floats, bytes) => {
          floats.write(bytes);
          if (floats !== part) cast({ output: part, input: floats });
        }),
    };
  });
}

/**
 * Calls `body` with consecutive parts of a tensor, memory for each in float32, the part itself where it is
 * float32, and its bytes of `values`.
 */
function forParts(
  data: Tensor,
  values: Uint8Array,
  body: (part: Tensor, floats: Tensor, bytes: Uint8Array) => void,
): void {
  const { dtype, device, size } = data;
  for (let start = 0; start < size; start += elementsAtATime) {
    const shape = [Math.min(elementsAtATime, size - start)];
    const end = start + shape[0]!;
    using part = data.view({ offset: start, shape });
    const bytes = values.subarray(4 * start, 4 * end);
    if (dtype === 'float32') {
      body(part, part, bytes);
    } else {
      using floats = Tensor.empty({ shape, dtype: 'float32', device });
      body(part, floats, bytes);
    }
  }
}

/**
 * 0 on the one rank that saves what several hold. Ranks of a store's group that all hold everything take
 * turns, so that each saves about as many bytes.
 */
function replicaNumbers(
  parameters: readonly Parameter[],
  {
    groups,
    group = { rank: 0, size: 1 },
    isDivided,
  }: {
    readonly groups: ParallelGroups;
    /** The group of the store that keeps the parameters. */
    readonly group: Pick<ProcessGroup, 'rank' | 'size'> | undefined;
    /** True if each of its ranks holds a part of its own. */
    readonly isDivided: boolean;
  },
): ReadonlyMap<Parameter, number> {
  const { rank, size } = group;
  const assigned = new Array<number>(size).fill(0);
  return new Map(
    parameters.map((parameter) => {
      const turn = assigned.indexOf(Math.min(...assigned));
      assigned[turn]! += parameter.size;
      let replica = isDivided ? 0 : (rank - turn + size) % size;
      let scale = isDivided ? 1 : size;
      for (const axis of parameter.copiedOver) {
        const copies = copiesAlong(groups, axis);
        replica += (copies?.rank ?? 0) * scale;
        scale *= copies?.size ?? 1;
      }
      return [parameter, replica];
    }),
  );
}

/** 0 on the one rank that saves what all ranks have that hold slices or copies of a parameter. */
function replicaOfWhole(
  { copiedOver, placement }: Parameter,
  { groups, group }: { readonly groups: ParallelGroups; readonly group: ProcessGroup | undefined },
): number {
  const axes = [...copiedOver, ...(Object.keys(placement.sharded) as MeshAxis[])];
  const others = axes.map((axis) => copiesAlong(groups, axis));
  return [group, ...others].reduce(
    ({ replica, scale }, each) => ({
      replica: replica + (each?.rank ?? 0) * scale,
      scale: scale * (each?.size ?? 1),
    }),
    { replica: 0, scale: 1 },
  ).replica;
}
