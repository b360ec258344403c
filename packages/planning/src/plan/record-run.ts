import type { MetaOperation } from '@mtl/comm';
import type { PretrainingConfiguration } from '@mtl/configuration';
import { optimizerSharing, scheduleOfStep } from '@mtl/configuration/strategies';
import type {
  CollectiveOperation,
  GroupUse,
  Operation,
  RankGroup,
  RecordedEnd,
  RecordedPasses,
  RecordedStep,
} from '@mtl/cost-model';
import { chooseMetaDevice, type Device, memoryStatistics, observeOperations } from '@mtl/kernels';
import { copyAxes, isFirstOfStage } from '@mtl/layout';
import type { ListedStore, TrainingState } from '@mtl/optimizer';
import type { StepListener } from '@mtl/pipeline';
import type { RecordedActivity } from '@mtl/pipeline/schedules';
import { rolesOfInstances } from '../dry-run/communication-scopes.js';
import { type DryRun, type DryRunOptions, dryRun } from '../dry-run/dry-run.js';
import {
  communicatorNames,
  type GroupNamed,
  isPipelineInside,
  rankGroups,
  UsedGroups,
} from './rank-groups.js';
import { recordedOperation } from './recorded-operation.js';

/** A dry run with its recorded operations, which predict the time of a step. */
export interface RecordedRun extends DryRun {
  readonly step: RecordedStep;
  /** Bytes that the forward pass of a micro-batch keeps for the backward pass, by chunk. */
  readonly keptBytes: readonly number[];
  /**
   * The part of `keptBytes` that is kept until the weight gradients are computed; undefined if the backward
   * pass is not split.
   */
  readonly keptForWeightBytes: readonly (number | undefined)[];
  /** The groups that each pipeline rank uses for communication on its device. */
  readonly groups: readonly (readonly GroupUse[])[];
}

interface RecordRunOptions extends Pick<DryRunOptions, 'isRun' | 'withUneven' | 'onRank'> {
  /** The number of ranks on a node. It determines the links that the ranks of a group use. */
  readonly gpusPerNode: number;
  /**
   * True if the row sums in attention's backward pass have a separate rate. Default: true on CPUs, false on
   * GPUs, where the rate of the backward pass includes the row sums.
   */
  readonly hasRowSumRates?: boolean;
}

/**
 * Performs a dry run of a training run, and records its step. The first tensor-parallel rank of every stage
 * must be included.
 *
 * @throws the errors of building the run, such as ConfigurationError
 */
export async function recordRun(
  configuration: PretrainingConfiguration,
  { gpusPerNode, hasRowSumRates = configuration.parallel.device !== 'cuda', ...options }: RecordRunOptions,
): Promise<RecordedRun> {
  const { parallel, training } = configuration;
  const groupNamed = rankGroups(parallel, gpusPerNode);
  const nameCommunicator = communicatorNames(parallel);
  const recordings = new Map<number, StepRecording>();
  const { store, overlapParameterGather: overlapsGather } = optimizerSharing(parallel);
  const run = await dryRun(configuration, {
    ...options,
    // only the first rank of a stage is recorded, because all tensor-parallel ranks run the same operations
    makeListener: (coordinates) => {
      if (!isFirstOfStage(coordinates)) return undefined;
      const { pp } = coordinates;
      const recording = new StepRecording({
        groupNamed,
        nameCommunicator,
        device: chooseMetaDevice(parallel.device),
        hasRowSumRates,
        overlapsGather,
        store,
        recordedMicroBatch: store.divides.includes('gradients')
          ? Math.min(1, training.numMicroBatches - 1)
          : 0,
      });
      recordings.set(pp, recording);
      return recording;
    },
  });
  const schedule = scheduleOfStep(parallel, training.numMicroBatches);
  const stages = Array.from({ length: parallel.pipelineModelParallelSize }, (_, pp) => recordings.get(pp)!);
  const message = stages.find((recording) => recording.message !== undefined)?.message;
  return {
    ...run,
    keptBytes: schedule.placement.map((rank, chunk) => stages[rank]!.keptBytes.get(chunk)!),
    keptForWeightBytes: schedule.placement.map((rank, chunk) => stages[rank]!.keptForWeightBytes.get(chunk)),
    groups: stages.map(({ groups }) => groups.uses()),
    step: {
      schedule,
      chunks: schedule.placement.map((rank, chunk): RecordedPasses => stages[rank]!.passes.get(chunk)!),
      ends: stages.map(({ end }) => end),
      ...(message === undefined
        ? {}
        : { message: { ...message, isInside: isPipelineInside(parallel, gpusPerNode) } }),
    },
  };
}

interface StepRecordingOptions {
  readonly groupNamed: GroupNamed;
  /** Maps a group's name to its communicator's name (see `communicatorNames`). */
  readonly nameCommunicator: (name: string) => string;
  /** The meta device of the dry run, which counts bytes. */
  readonly device: Device;
  readonly hasRowSumRates: boolean;
  readonly overlapsGather: boolean;
  readonly store: ListedStore;
  /**
   * The micro-batch whose passes are recorded. It is not always the first, which gathers more units than
   * later micro-batches, because an update has just changed all values.
   */
  readonly recordedMicroBatch: number;
}

/**
 * Listens to the first step of a rank in a dry run, and records everything that determines the step's time:
 * for each chunk and kind of pass, the operations for one micro-batch; the message between stages; and the
 * operations after the passes.
 *
 * A store that communicates units of sharded states in every micro-batch starts and waits for collectives
 * within passes. These collectives are recorded in the passes, so that the prediction overlaps them with the
 * same operations as a run does.
 */
class StepRecording implements StepListener {
  /** The groups in which the rank communicates, before or during the step. */
  readonly groups: UsedGroups;
  readonly #groupNamed: GroupNamed;
  readonly #device: Device;
  readonly #hasRowSumRates: boolean;
  readonly #overlapsGather: boolean;
  readonly #divides: readonly TrainingState[];
  readonly #recordedMicroBatch: number;
  readonly #passes = new Map<number, Partial<Record<string, Operation[]>>>();
  readonly #keptBytes = new Map<number, number>();
  readonly #keptForWeight = new Map<number, number>();
  readonly #end: Operation[] = [];
  readonly #reduction: CollectiveOperation[] = [];
  readonly #gather: CollectiveOperation[] = [];
  readonly #ids = new Map<MetaOperation, number>();
  /** How many starts of collectives the lists of passes contain. */
  #numStarts = 0;
  /** The collectives of units that a pass has started and for which no operation has waited yet. */
  readonly #pendingUnits = new Map<MetaOperation, CollectiveOperation>();
  /**
   * The pending collectives that have been in progress during a whole pass. They have ended by the next pass.
   */
  readonly #overtaken = new Set<MetaOperation>();
  /** The gathers of units in the forward passes of the first micro-batch, and of the recorded micro-batch. */
  readonly #unitGathers = { first: [] as CollectiveOperation[], recorded: [] as CollectiveOperation[] };
  #activity: RecordedActivity | undefined;
  /** The list to which operations are added; undefined in passes of later micro-batches. */
  #current: Operation[] | undefined = this.#end;
  #reducesInPasses = false;
  #messageBytes = 0;
  #messageGather: CollectiveOperation | undefined;
  #isInStep = false;
  /** True after the first step. Later steps are not recorded, because they only repeat it. */
  #isRecorded = false;

  constructor(options: StepRecordingOptions) {
    const { groupNamed, nameCommunicator, device, hasRowSumRates, overlapsGather } = options;
    this.#divides = options.store.divides;
    this.#recordedMicroBatch = options.recordedMicroBatch;
    this.#groupNamed = groupNamed;
    this.groups = new UsedGroups(groupNamed, nameCommunicator);
    this.#device = device;
    this.#hasRowSumRates = hasRowSumRates;
    this.#overlapsGather = overlapsGather;
  }

  /** Returns the recorded passes, by the chunks of this rank. */
  get passes(): ReadonlyMap<number, RecordedPasses> {
    return this.#passes as ReadonlyMap<number, RecordedPasses>;
  }

  /** Returns the bytes that a micro-batch's forward pass keeps, by chunk. */
  get keptBytes(): ReadonlyMap<number, number> {
    return this.#keptBytes;
  }

  /**
   * Returns the bytes that are kept between the input half and the weight half of the backward pass, by
   * chunk. Only for schedules that split the backward pass.
   */
  get keptForWeightBytes(): ReadonlyMap<number, number> {
    return this.#keptForWeight;
  }

  get end(): RecordedEnd {
    // nothing is computed yet that could overlap with the gathers of the first micro-batch alone
    const onlyFirst = withoutEqual(this.#unitGathers.first, this.#unitGathers.recorded);
    return {
      operations: this.#end,
      reduction: { operations: this.#reduction, isOverlapped: this.#reducesInPasses },
      gather: { operations: [...this.#gather, ...onlyFirst], isOverlapped: this.#overlapsGather },
    };
  }

  /**
   * Returns the message between stages and the gather of the received parts, if any; undefined if this rank
   * neither sends nor receives.
   */
  get message(): { readonly bytes: number; readonly gather: CollectiveOperation | undefined } | undefined {
    return this.#messageBytes === 0 ? undefined : { bytes: this.#messageBytes, gather: this.#messageGather };
  }

  beginStep(): void {
    this.#isInStep = !this.#isRecorded;
  }

  endStep(): void {
    this.#isInStep = false;
    this.#isRecorded = true;
  }

  span<Result>(activity: RecordedActivity, body: () => Result): Result {
    const { kind } = activity;
    if (this.#isRecorded || kind === 'step' || kind === 'evaluation') return body();
    const [outer, current] = [this.#activity, this.#current];
    this.#activity = activity;
    this.#current = this.#findList(activity);
    try {
      if (passKinds.has(kind)) this.#continuePending();
      if (this.#current === undefined) return body();
      const { bytesInUse } = memoryStatistics(this.#device);
      const result = this.#observed(this.#current, body);
      const { chunk = 0 } = activity;
      const added = memoryStatistics(this.#device).bytesInUse - bytesInUse;
      if (kind === 'F') this.#keptBytes.set(chunk, added);
      if (kind === 'I') this.#keptForWeight.set(chunk, this.#keptBytes.get(chunk)! + added);
      return result;
    } finally {
      this.#activity = outer;
      this.#current = current;
    }
  }

  readonly onOperation = (operation: MetaOperation): void => {
    this.groups.add(operation);
    if (!this.#isInStep) return;
    const kind = this.#activity?.kind;
    if (operation.group === 'pp' && (operation.operation === 'send' || operation.operation === 'receive')) {
      this.#messageBytes = Math.max(this.#messageBytes, operation.bytes);
      return;
    }
    // only received messages of a ring are counted, because a rank sends the same number of bytes at the same
    // time
    if (operation.operation === 'send') return;
    const collective = describeCollective(operation, this.#groupNamed(operation.group));
    const isOfStores = collective.group.axis === copyAxes.dense && !rolesOfInstances.has(operation.group);
    if (this.#isOfUnit(collective)) {
      this.#pendingUnits.set(operation, collective);
      this.#startUnit(operation, collective);
    } else if (isOfStores && collective.bytes >= smallestBucket) {
      if (collective.collective === 'all-gather') this.#gather.push(collective);
      else {
        this.#reduction.push(collective);
        this.#reducesInPasses ||= kind !== 'reduce' && kind !== 'optimizer';
      }
    } else if (kind === 'wait') {
      this.#messageGather = collective;
    } else if (kind === undefined || kind === 'optimizer' || kind === 'reduce') {
      this.#end.push(collective);
    } else if (this.#current !== undefined) {
      this.#start(operation, collective);
    }
  };

  readonly onWait = (operation: MetaOperation): void => {
    const pending = this.#pendingUnits.get(operation);
    this.#pendingUnits.delete(operation);
    // the reductions that the last pass started overlap with nothing
    if (pending !== undefined && !this.#isInPass) this.#reduction.push(pending);
    const id = this.#ids.get(operation);
    if (id !== undefined) this.#current?.push({ kind: 'wait', id });
  };

  get #isInPass(): boolean {
    return passKinds.has(this.#activity?.kind);
  }

  /** Returns true if, in a pass, the collective gathers or reduces a unit of sharded states. */
  #isOfUnit({ collective, group, bytes }: CollectiveOperation): boolean {
    if (group.axis !== copyAxes.dense || bytes < smallestBucket || !this.#isInPass) return false;
    return this.#divides.includes(collective === 'all-gather' ? 'parameters' : 'gradients');
  }

  #startUnit(operation: MetaOperation, collective: CollectiveOperation): void {
    const { kind, microBatch = 0 } = this.#activity!;
    if (collective.collective === 'all-gather' && kind === 'F') {
      if (microBatch === 0) this.#unitGathers.first.push(collective);
      if (microBatch === this.#recordedMicroBatch) this.#unitGathers.recorded.push(collective);
    }
    if (this.#current !== undefined) this.#start(operation, collective);
  }

  /** Adds to a pass the collectives that the previous pass started and that are still in progress. */
  #continuePending(): void {
    for (const [operation, collective] of this.#pendingUnits) {
      if (this.#overtaken.has(operation)) continue;
      this.#overtaken.add(operation);
      if (this.#current !== undefined) this.#start(operation, collective);
    }
  }

  #start(operation: MetaOperation, collective: CollectiveOperation): void {
    const id = this.#numStarts++;
    this.#ids.set(operation, id);
    this.#current!.push({ kind: 'start', id, collective });
  }

  /**
   * Returns the list for an activity's operations. Each chunk and kind of pass has a list for one
   * micro-batch. A further list contains the operations after the passes.
   */
  #findList({ kind, chunk = 0, microBatch }: RecordedActivity): Operation[] | undefined {
    if (kind === 'optimizer' || kind === 'reduce') return this.#end;
    if (kind === 'wait') return undefined;
    const passes = this.#passes.get(chunk) ?? {};
    this.#passes.set(chunk, passes);
    if (passes[kind] !== undefined || (microBatch ?? 0) !== this.#recordedMicroBatch) return undefined;
    passes[kind] = [];
    return passes[kind];
  }

  #observed<Result>(list: Operation[], body: () => Result): Result {
    return observeOperations((name, operands, { flops }) => {
      if (name === 'attention_row_sums' && !this.#hasRowSumRates) return;
      list.push(recordedOperation({ name, operands }, flops));
    }, body);
  }
}

/** Returns `all` after removing, for each collective in `others`, one collective that is equal to it. */
function withoutEqual(
  all: readonly CollectiveOperation[],
  others: readonly CollectiveOperation[],
): readonly CollectiveOperation[] {
  const rest = [...others];
  return all.filter(({ bytes, group }) => {
    const index = rest.findIndex((each) => each.bytes === bytes && each.group === group);
    if (index >= 0) rest.splice(index, 1);
    return index < 0;
  });
}

const passKinds: ReadonlySet<string | undefined> = new Set(['F', 'B', 'I', 'W']);

function describeCollective({ operation, bytes }: MetaOperation, group: RankGroup): CollectiveOperation {
  const collectives = {
    allGather: 'all-gather',
    reduceScatter: 'reduce-scatter',
    broadcast: 'all-gather',
    allToAll: 'all-to-all',
    receive: 'message',
  } as const;
  const collective = collectives[operation as keyof typeof collectives] ?? 'all-reduce';
  // a gather is reported with the bytes that this rank contributes, so the complete tensor is larger by the
  // number of ranks
  const whole = operation === 'allGather' ? bytes * group.size : bytes;
  return { kind: 'collective', name: operation, collective, bytes: whole, group };
}

/**
 * The smallest size in bytes of a tensor that counts as a bucket of gradients. Smaller tensors hold only a
 * few values.
 */
export const smallestBucket = 4096;
