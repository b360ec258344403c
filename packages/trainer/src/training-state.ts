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
import { cast, type Device, Tensor } from '@mtl/kernels';
import type { MeshAxis } from '@mtl/layout';
import {
  copiesAlong,
  type FlatRange,
  instancesGroup,
  type KeptValues,
  type LossScaler,
  listOwnedParts,
  type ModelOptimizer,
  type ParallelGroups,
  type ParameterRange,
  type ParameterStore,
} from '@mtl/optimizer';
import type { Extensions } from './extensions/extensions.js';
import { isCount } from './extensions/trainer-extension.js';
import type { TrainingProgress } from './metrics/training-reports.js';

const optimizerPrefix = 'optimizer.';

/** Returns true if a checkpoint's tensor is optimizer state, which --no-load-optim and --finetune skip. */
export function isOptimizerTensor(name: string): boolean {
  return name.startsWith(optimizerPrefix);
}

/** Returns the name of the parameter to which a checkpoint's tensor belongs. */
export function readParameterName(name: string): string {
  return isOptimizerTensor(name) ? name.slice(name.indexOf('.', optimizerPrefix.length) + 1) : name;
}

/**
 * The values of a parameter that this rank holds. The range [start, end) is their position among the
 * parameter's elements in the store.
 */
interface HeldRange extends FlatRange {
  readonly values: KeptValues;
}

/**
 * The number of elements that are converted at a time. A larger number would increase a run's peak memory.
 */
const elementsAtATime = 2 ** 20;

/**
 * Returns access to the values of the tensor that `view` returns, which must have a floating-point dtype. The
 * caller disposes of the tensor.
 */
const valuesIn = (view: () => Tensor): KeptValues => {
  const partFor = (start: number, { size }: Tensor): Tensor => {
    using whole = view();
    return whole.view({ offset: start, shape: [size] });
  };
  return {
    view: () => {
      const whole = view();
      if (whole.dtype === 'float32') return whole;
      whole.dispose();
      return undefined;
    },
    read: (start, output) => {
      using input = partFor(start, output);
      cast({ output, input });
    },
    write: (start, input) => {
      using output = partFor(start, input);
      cast({ output, input });
    },
  };
};

/** The values of a parameter's box: `size` elements of `values`, beginning at index `start`. */
interface ValuesOfBox {
  readonly values: KeptValues;
  readonly start: number;
  readonly size: number;
  readonly device: Device;
}

type BoxOfTensor = Pick<LogicalTensor, 'name' | 'slices' | 'replica' | 'globalShape'> &
  Partial<Pick<LogicalTensor, 'limit'>>;

/**
 * Returns a checkpoint tensor for a box (a rectangular slice) of a parameter, whose values are contiguous.
 */
function logicalTensor(box: BoxOfTensor & ValuesOfBox): LogicalTensor {
  const { values, start, size, device, ...described } = box;
  const view = (): Tensor | undefined => {
    using all = values.view();
    return all?.view({ offset: start, shape: [size] });
  };
  using first = view();
  if (first === undefined) return { ...described, dtype: 'F32', ...convertedValues(box) };
  const withMemory: LogicalTensor['withMemory'] = async (fill) => {
    using tensor = view()!;
    await tensor.withMemory(fill);
  };
  return {
    ...(device === 'cpu' ? { withMemory } : {}),
    ...described,
    dtype: 'F32',
    read: () => {
      using tensor = view()!;
      const floats = tensor.read<'float32'>();
      return new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength);
    },
    readInto: (target) => {
      using tensor = view()!;
      tensor.readInto(target);
    },
    write: (bytes) => {
      using tensor = view()!;
      tensor.write(bytes);
    },
  };
}

/**
 * Reads and writes values that are not float32 in memory. Only a part of the values is converted at a time.
 */
function convertedValues({
  values,
  start: first,
  size,
  device,
}: ValuesOfBox): Required<Pick<LogicalTensor, 'read' | 'readInto' | 'write'>> {
  const forParts = (bytes: Uint8Array, body: (start: number, floats: Tensor, own: Uint8Array) => void) => {
    for (let start = 0; start < size; start += elementsAtATime) {
      const length = Math.min(elementsAtATime, size - start);
      using floats = Tensor.empty({ shape: [length], dtype: 'float32', device });
      body(first + start, floats, bytes.subarray(4 * start, 4 * (start + length)));
    }
  };
  const readInto = (target: Uint8Array): void =>
    forParts(target, (start, floats, own) => {
      values.read(start, floats);
      floats.readInto(own);
    });
  return {
    readInto,
    read: () => {
      const bytes = new Uint8Array(size * Float32Array.BYTES_PER_ELEMENT);
      readInto(bytes);
      return bytes;
    },
    write: (source) =>
      forParts(source, (start, floats, own) => {
        floats.write(own);
        values.write(start, floats);
      }),
  };
}

/**
 * Returns checkpoint tensors for this rank's values of a store's parameters. A complete parameter or
 * tensor-parallel slice is one box. A parameter that is sharded over the ranks of the store consists of a few
 * boxes.
 */
function heldTensors(
  { group, device }: Pick<ParameterStore, 'group' | 'device'>,
  options: {
    readonly groups: ParallelGroups;
    readonly prefix: string;
    readonly ranges: readonly ParameterRange[];
    /** Returns true if each rank of the store's group holds a different part of `parameter`. */
    readonly isDivided: (parameter: Parameter) => boolean;
    /**
     * Returns the ranges of a parameter on this rank; undefined if the parameter has no values of this kind.
     */
    readonly listParts: (range: ParameterRange) => readonly HeldRange[] | undefined;
    readonly limit?: ValueLimit;
  },
): LogicalTensor[] {
  const { groups, prefix, ranges, isDivided, listParts, limit } = options;
  const parameters = ranges.map(({ parameter }) => parameter);
  const replicas = replicaNumbers(parameters, { groups, group, isDivided });
  return ranges.flatMap((range) => {
    const { parameter } = range;
    const parts = listParts(range);
    if (parts === undefined) return [];
    const { globalShape, slices: all } = parameter;
    const box = {
      name: prefix + parameter.name,
      globalShape,
      device,
      replica: replicas.get(parameter)!,
      ...(limit === undefined ? {} : { limit }),
    };
    const boxes = parts.flatMap(({ start, end, values }) =>
      slicesOfFlatRange({ slices: all, start: start - range.start, end: end - range.start }).map(
        ({ slices, offset, length }) =>
          logicalTensor({ ...box, slices, values, start: offset, size: length }),
      ),
    );
    if (boxes.length > 0) return boxes;
    // the values are on further ranks, so an empty box declares the parameter on this rank
    const none = all.map(({ start }) => ({ start, end: start }));
    const values = valuesIn(() => Tensor.empty({ shape: [0], dtype: 'float32', device }));
    return [logicalTensor({ ...box, slices: none, values, start: 0, size: 0 })];
  });
}

const listTrained = ({ ranges, isDivided }: ParameterStore) => ({ ranges, isDivided: () => isDivided });

/**
 * Returns the smallest magnitude at which a weight is unusable, because no forward pass then computes a
 * finite loss. In float16, the model's copy of such a weight is infinite. In float32 and bfloat16, the square
 * of such a weight is infinite.
 */
function weightLimit({ dtype }: ParameterStore): ValueLimit {
  return dtype === 'float16'
    ? { magnitude: 65520, why: 'which overflows in float16' }
    : { magnitude: 2 ** 64, why: 'whose square overflows in float32' };
}

/**
 * Returns this rank's parts of the master weights, under their logical names. Frozen parameters have no
 * master weights, so for them, the result contains the model's values in float32, which represents them
 * exactly.
 */
export function weightTensors({ stores, groups }: ModelOptimizer): LogicalTensor[] {
  const ofStores = stores.map((store) => ({ store, groups, limit: weightLimit(store) }));
  const trained = ofStores.flatMap(({ store, ...options }) =>
    heldTensors(store, {
      ...options,
      ...listTrained(store),
      prefix: '',
      listParts: (range) =>
        listOwnedParts(store, range).map((part) => ({ ...part, values: store.masterValues(part) })),
    }),
  );
  const frozen = ofStores.flatMap(({ store, ...options }) =>
    heldTensors(store, {
      ...options,
      prefix: '',
      ranges: store.frozen.map((parameter) => ({ parameter, start: 0, end: parameter.size })),
      isDivided: (parameter) => store.dividesFrozen(parameter),
      listParts: ({ parameter }) => store.listFrozenParts(parameter),
    }),
  );
  return [...trained, ...frozen];
}

/**
 * Returns this rank's parts of the reduced main gradients, as `gradient.NAME`. Must be called between
 * `reduceGradients` and `step`.
 */
export function gradientTensors({ stores, groups }: ModelOptimizer): LogicalTensor[] {
  return stores.flatMap((store) =>
    heldTensors(store, {
      ...listTrained(store),
      groups,
      prefix: 'gradient.',
      listParts: (range) =>
        listOwnedParts(store, range).map((part) => ({
          ...part,
          values: valuesIn(() => store.gradient(part)),
        })),
    }),
  );
}

/**
 * Returns this rank's parts of the optimizer states, as `optimizer.STATE.NAME` (for AdamW `exp_avg` and
 * `exp_avg_sq`, for Muon `momentum_buffer`). The tensors are sorted by state, then by the order of the
 * parameters. The order does not depend on which optimizer rule owns a state, so that a resumed run with more
 * rules writes the same bytes. States of parameters, such as matmul precision states, come last and have
 * similar names.
 */
export function optimizerTensors(optimizer: ModelOptimizer): LogicalTensor[] {
  const { groups, state } = optimizer;
  const places = new Map(weightTensors(optimizer).map(({ name }, place) => [name, place]));
  const names = [...new Set(state.map(({ name }) => name))];
  const ofRules = names.flatMap((stateName) => {
    const prefix = `${optimizerPrefix}${stateName}.`;
    const findPlace = ({ name }: LogicalTensor): number => places.get(name.slice(prefix.length))!;
    return state
      .filter(({ name }) => name === stateName)
      .flatMap(({ store, listParts }) =>
        heldTensors(store, { ...listTrained(store), groups, prefix, listParts }),
      )
      .sort((one, other) => findPlace(one) - findPlace(other));
  });
  return [...ofRules, ...statesOfParameters(optimizer)];
}

/**
 * Returns the states of parameters, such as matmul precision states. Every rank that holds a slice of a
 * parameter has the parameter's complete state.
 */
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
          values: valuesIn(() => tensor.view({ shape: [tensor.size] })),
          start: 0,
          size: tensor.size,
        }),
      ),
    ),
  );
}

/**
 * The contents of a checkpoint, apart from tensors and the states of extensions. Random numbers are
 * counter-based, so the seed in the configuration is enough to restore them.
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

/** Reads and checks the training state in a checkpoint's manifest. */
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
  /** The path of a checkpoint of this run. The checkpoint may have been saved with any layout. */
  readonly path: string;
  readonly optimizer: ModelOptimizer;
  readonly lossScaler: LossScaler;
}

/**
 * Restores weights, optimizer and loss scale from a checkpoint during a run. Every rank must call this
 * function.
 *
 * @returns the checkpoint's progress
 * @throws CheckpointError `MTL_CHECKPOINT_...`
 */
export async function restoreCheckpoint(options: RestoreCheckpointOptions): Promise<TrainingProgress> {
  const { path, optimizer, lossScaler } = options;
  const checkpoint = await Checkpoint.open(path);
  const state = readTrainingState(checkpoint.state, path);
  // the scales in the states are chosen for the values that are read, regardless of the previous states
  optimizer.clearStates();
  const tensors = [...weightTensors(optimizer), ...optimizerTensors(optimizer)];
  const own = new Set(tensors.map(({ name }) => name));
  await loadCheckpoint({ checkpoint, tensors, ignore: (name) => !own.has(name) });
  optimizer.refreshModel();
  optimizer.numSteps = state.optimizerSteps;
  lossScaler.loadState(state.lossScaler);
  return state.progress;
}

/**
 * Returns each parameter's replica number on this rank. If several ranks hold the same parameter, the rank
 * that saves it has replica number 0. If all ranks of a store's group hold all parameters, the parameters are
 * distributed among the ranks, so that each rank saves about the same number of bytes.
 */
function replicaNumbers(
  parameters: readonly Parameter[],
  {
    groups,
    group = { rank: 0, size: 1 },
    isDivided,
  }: {
    readonly groups: ParallelGroups;
    /** The process group of the store that keeps the parameters. */
    readonly group: Pick<ProcessGroup, 'rank' | 'size'> | undefined;
    /** Returns true if each rank of the group holds a different part of `parameter`. */
    readonly isDivided: (parameter: Parameter) => boolean;
  },
): ReadonlyMap<Parameter, number> {
  const { rank, size } = group;
  const assigned = new Array<number>(size).fill(0);
  return new Map(
    parameters.map((parameter) => {
      const turn = assigned.indexOf(Math.min(...assigned));
      assigned[turn]! += parameter.size;
      let [replica, scale] = isDivided(parameter) ? [0, 1] : [(rank - turn + size) % size, size];
      for (const copies of listCopies(parameter, groups)) {
        replica += (copies?.rank ?? 0) * scale;
        scale *= copies?.size ?? 1;
      }
      return [parameter, replica];
    }),
  );
}

/**
 * Returns the groups of ranks that hold the same part of a parameter, except the group of the parameter's
 * store.
 */
const listCopies = (
  { copiedOver, placement }: Parameter,
  groups: ParallelGroups,
): readonly (ProcessGroup | undefined)[] => [
  ...copiedOver.map((axis) => copiesAlong(groups, axis)),
  instancesGroup(groups, placement.view),
];

/**
 * Returns the replica number of a value that is complete on every rank with a slice or copy of its parameter.
 * The number is 0 on the rank that saves the value.
 */
function replicaOfWhole(
  parameter: Parameter,
  { groups, group }: { readonly groups: ParallelGroups; readonly group: ProcessGroup | undefined },
): number {
  const sharded = Object.keys(parameter.placement.sharded) as MeshAxis[];
  const others = sharded.map((axis) => copiesAlong(groups, axis));
  return [group, ...listCopies(parameter, groups), ...others].reduce(
    ({ replica, scale }, each) => ({
      replica: replica + (each?.rank ?? 0) * scale,
      scale: scale * (each?.size ?? 1),
    }),
    { replica: 0, scale: 1 },
  ).replica;
}
