import { MetaWorld, type MetaWorldOptions } from '@mtl/comm';
import type { PretrainingConfiguration } from '@mtl/configuration';
import { numSharesOfBatch, scheduleOfStep } from '@mtl/configuration/strategies';
import {
  chooseMetaDevice,
  countedFlops,
  type Device,
  memoryStatistics,
  resetCountedFlops,
  resetPeakMemory,
  trimMemory,
} from '@mtl/kernels';
import type { MeshCoordinates } from '@mtl/layout';
import type { TransformerConfiguration } from '@mtl/models';
import { type GroupsByRole, LossScaler, type ModelOptimizer } from '@mtl/optimizer';
import type { PipelineRecorder, StepListener } from '@mtl/pipeline';
import type { RecordedActivity } from '@mtl/pipeline/schedules';
import { buildStages, createOptimizer, TrainingProcesses } from '@mtl/runs';
import { type AssumedRouting, describeFlopsShape, findRecipe, newTrainer } from '@mtl/runs/internal';
import { modelFlops, stepRecording } from '@mtl/trainer';
import {
  type CommunicationScope,
  communicationScopes,
  type ShardingTraffic,
  shardingScopes,
} from './communication-scopes.js';
import { explainUncountable } from './explain-uncountable.js';

/** The memory, FLOPs and communication of a training run on one rank. */
export interface DryRunRank {
  readonly rank: number;
  readonly coordinates: MeshCoordinates;
  /** The number of the model's parameters on this rank. */
  readonly numParameters: number;
  /** The allocator's peak in bytes, from building the model to the end of the last step. */
  readonly peakBytes: number;
  readonly memoryByKind: MemoryByKind;
  /** The FLOPs of a step, as counted by the native operations. */
  readonly flops: number;
  /**
   * The bytes that the rank sends in a step, keyed by the names of the `CommunicationScope`s whose groups
   * contain this rank.
   */
  readonly sentBytes: Readonly<Record<string, number>>;
  /**
   * The part of `sentBytes` for sharded states; absent if sharded states are communicated neither within
   * micro-batches nor between instances.
   */
  readonly shardingTraffic?: ShardingTraffic | undefined;
}

/** Listens to a rank's actions: passes, ends of steps, and communication. */
export type DryRunListener = StepListener & Pick<MetaWorldOptions, 'onOperation' | 'onWait'>;

/**
 * The number of steps to run with CUDA graphs. Passes run directly in the first step, are recorded in the
 * second, and are launched as graphs from the third on.
 */
const stepsOfGraphs = 3;

export interface DryRunRankOptions {
  readonly rank: number;
  readonly model: TransformerConfiguration;
  /**
   * The number of steps to run. Later steps reuse the allocator's cached memory. Default: 1, or 3 with CUDA
   * graphs, so that all passes are recorded.
   */
  readonly numSteps?: number;
  readonly listener?: DryRunListener | undefined;
  /** The assumed routing of tokens, for a model with experts. Default: even. */
  readonly assumedRouting?: AssumedRouting | undefined;
}

/**
 * Builds a rank of a training run with the code of a real run, but on a device that stores no values, and
 * runs its first steps. Nothing is computed or communicated, and batches consist of full placeholder
 * sequences. The result includes the FLOPs and bytes of micro-batches that are not run, except 8 bytes for
 * each loss.
 *
 * @throws the errors of building and running the rank; for the WebAssembly kernels, KernelError
 *   MTL_OUT_OF_MEMORY beyond 4 GiB
 */
export async function dryRunRank(
  { configuration, scale }: MetaRun,
  options: DryRunRankOptions,
): Promise<DryRunRank> {
  const { parallel } = configuration;
  const { device } = parallel;
  const {
    rank,
    model,
    numSteps = parallel.cudaGraphs ? stepsOfGraphs : 1,
    listener,
    assumedRouting,
  } = options;
  trimMemory(device);
  const { bytesInUse } = memoryStatistics(device);
  resetPeakMemory(device);
  const memory = new PeakMemory(device);
  const processes = makeProcesses(configuration, { rank, listener });
  const recipe = findRecipe(configuration);
  const scopes = communicationScopes(configuration.parallel);
  const sharding = shardingScopes(configuration.parallel);
  const counted = [...scopes, ...Object.values(sharding ?? {}).flat()];
  const passes = new CountedPasses(processes.groups, counted);
  const recorder: PipelineRecorder = {
    span: (activity, body) => {
      const listened = listener === undefined ? body : () => listener.span(activity, body);
      return passes.span(activity, () => memory.span(activity, listened));
    },
  };
  const run = { configuration, processes, onMessage: () => {} };
  const part = buildStages(run, { model, recorder, assumedRouting });
  const numParameters = part.parameters.reduce((sum, { size }) => sum + size, 0);
  let optimizer: ModelOptimizer | undefined;
  const lossScaler = new LossScaler(configuration.optimizer.lossScale);
  try {
    optimizer = createOptimizer(run, { part });
    memory.setStates(optimizer);
    const batch = recipe.placeholderBatch(configuration);
    const losses = recipe.losses(model);
    const trainer = newTrainer({
      configuration,
      part,
      optimizer,
      lossScaler,
      batches: { next: async () => ({ done: false, value: batch }) },
      losses,
      lossesOfAbsentRanks: losses.map(({ name }) => name),
      flopsPerSample: modelFlops(describeFlopsShape(configuration, model)),
      progress: undefined,
      extensions: [listener && stepRecording(listener)],
    });
    const sentBefore = countSentBytes(processes.groups, counted);
    resetCountedFlops();
    let steps = 0;
    for await (const _ of trainer) if (++steps === numSteps) break;
    const sent = countSentBytes(processes.groups, counted);
    // the number of micro-batches that are not run, per micro-batch that is run
    const more = scale - 1;
    const { numMicroBatches } = configuration.training;
    const sentInStep = (scope: CommunicationScope): number =>
      ((sent.get(scope) ?? 0) -
        (sentBefore.get(scope) ?? 0) +
        more * passes.sentBytes(scope, { numMicroBatches })) /
      steps;
    const sumOver = (some: readonly CommunicationScope[]): number =>
      some.reduce((sum, scope) => sum + sentInStep(scope), 0);
    return {
      rank,
      coordinates: processes.coordinates,
      numParameters,
      peakBytes: memoryStatistics(device).peakBytes - bytesInUse,
      memoryByKind: memory.byKind(),
      flops: (countedFlops() + more * passes.flops) / steps,
      sentBytes: Object.fromEntries(
        scopes.filter((scope) => sent.has(scope)).map((scope) => [scope.name, sentInStep(scope)]),
      ),
      ...(sharding === undefined
        ? {}
        : {
            shardingTraffic: {
              gatheredBytes: sumOver(sharding.gatheredBytes),
              reducedBytes: sumOver(sharding.reducedBytes),
              ...(sharding.acrossInstancesBytes === undefined
                ? {}
                : { acrossInstancesBytes: sumOver(sharding.acrossInstancesBytes) }),
            },
          }),
    };
  } catch (error) {
    throw explainUncountable(error, { rank, numParameters });
  } finally {
    part.dispose();
    optimizer?.dispose();
  }
}

function makeProcesses(
  configuration: PretrainingConfiguration,
  { rank, listener }: Pick<DryRunRankOptions, 'rank' | 'listener'>,
): TrainingProcesses {
  const { parallel, training } = configuration;
  const { worldSize: size } = parallel;
  const { placement } = scheduleOfStep(parallel, training.numMicroBatches);
  const hooks = listener && { onOperation: listener.onOperation, onWait: listener.onWait };
  const world = size === 1 ? undefined : new MetaWorld({ rank, size, ...hooks });
  return new TrainingProcesses({ world, parallel, areApart: true, ends: [placement[0]!, placement.at(-1)!] });
}

/**
 * Returns the bytes that the rank has sent so far, by scope. If several scopes include a group, its
 * operations count only for the first of these scopes.
 */
function countSentBytes(
  groups: GroupsByRole,
  scopes: readonly CommunicationScope[],
): ReadonlyMap<CommunicationScope, number> {
  const seen = new Map<unknown, Set<CommunicationScope['operation']>>();
  const sent = new Map<CommunicationScope, number>();
  for (const scope of scopes) {
    const group = groups[scope.role];
    if (group === undefined || seen.get(group)?.has(scope.operation) === true) continue;
    seen.set(group, new Set([...(seen.get(group) ?? []), scope.operation]));
    const counts = group.statistics();
    const own = scope.operation === undefined ? Object.values(counts) : [counts[scope.operation]];
    sent.set(
      scope,
      own.reduce((sum, { sentBytes }) => sum + sentBytes, 0),
    );
  }
  return sent;
}

/**
 * Counts the quantities that are proportional to the number of micro-batches: all FLOPs, and the bytes that
 * passes send.
 */
class CountedPasses implements PipelineRecorder {
  flops = 0;
  readonly #groups: GroupsByRole;
  readonly #scopes: readonly CommunicationScope[];
  readonly #sentBytes = new Map<CommunicationScope, number>();
  /** The bytes that all micro-batches of a step except the first send, by scope. */
  readonly #sentLater = new Map<CommunicationScope, number>();

  constructor(groups: GroupsByRole, scopes: readonly CommunicationScope[]) {
    this.#groups = groups;
    this.#scopes = scopes;
  }

  span<Result>({ kind, microBatch = 0 }: RecordedActivity, body: () => Result): Result {
    if (kind === 'step') return this.#counted(this.#sentBytes, body);
    return microBatch > 0 && passes.has(kind) ? this.#counted(this.#sentLater, body) : body();
  }

  /**
   * Returns the bytes that grow with the number of micro-batches, as if the first micro-batch sent the same
   * number of bytes as each later micro-batch.
   */
  sentBytes(scope: CommunicationScope, { numMicroBatches }: { readonly numMicroBatches: number }): number {
    if (scope.perMicroBatch === 'all') return this.#sentBytes.get(scope) ?? 0;
    if (scope.perMicroBatch === undefined || numMicroBatches === 1) return 0;
    return ((this.#sentLater.get(scope) ?? 0) * numMicroBatches) / (numMicroBatches - 1);
  }

  #counted<Result>(sentBytes: Map<CommunicationScope, number>, body: () => Result): Result {
    const [flops, sent] = [countedFlops(), countSentBytes(this.#groups, this.#scopes)];
    const result = body();
    if (sentBytes === this.#sentBytes) this.flops += countedFlops() - flops;
    for (const [scope, bytes] of countSentBytes(this.#groups, this.#scopes)) {
      sentBytes.set(scope, (sentBytes.get(scope) ?? 0) + bytes - sent.get(scope)!);
    }
    return result;
  }
}

/**
 * A training run on device `meta` or `meta-cuda`. All ranks of a dry run use the same object, so that they
 * share schedules.
 */
export interface MetaRun {
  /** The run's configuration on the meta device, with the number of micro-batches to run. */
  readonly configuration: PretrainingConfiguration;
  /** The number of micro-batches in a step, divided by the number of micro-batches to run. */
  readonly scale: number;
}

/**
 * Returns the meta run of a training run. It runs only `numMicroBatches` micro-batches of a step (default:
 * all; see `enoughMicroBatches`).
 */
export function metaRun(
  run: PretrainingConfiguration,
  { numMicroBatches = run.training.numMicroBatches }: { readonly numMicroBatches?: number } = {},
): MetaRun {
  const { rampup: _, ...training } = run.training;
  const { microBatchSize } = training;
  return {
    scale: run.training.numMicroBatches / numMicroBatches,
    configuration: {
      ...run,
      parallel: { ...run.parallel, device: chooseMetaDevice(run.parallel.device) },
      training: {
        ...training,
        numMicroBatches,
        globalBatchSize: numMicroBatches * microBatchSize * numSharesOfBatch(run.parallel),
      },
    },
  };
}

/** A rank's bytes at its memory peak, by use. Their sum is the allocator's peak. */
export interface MemoryByKind {
  /** Parameters in the compute dtype. */
  readonly parameters: number;
  /** Main gradients. */
  readonly gradients: number;
  /**
   * The bytes of master weights, if they are separate from the parameters; of the optimizer states; and of
   * the allocator's rounding for parameters, gradients and states.
   */
  readonly optimizer: number;
  /** The activations of all micro-batches in flight when the pass with the peak began. */
  readonly activations: number;
  /**
   * The bytes that the current pass added. If the peak is outside of passes: all bytes at the peak beyond the
   * states.
   */
  readonly temporary: number;
}

const passes: ReadonlySet<RecordedActivity['kind']> = new Set(['F', 'B', 'I', 'W']);

/** Determines the uses of memory at the peak. */
class PeakMemory {
  readonly #device: Device;
  /** Bytes in use before the model was built. */
  readonly #before: number;
  #states: { readonly all: number; readonly parameters: number; readonly gradients: number } | undefined;
  /** Bytes in use when the pass with the highest peak began. */
  #atPass = 0;
  #peakOfPasses = 0;

  /** Uses the bytes that are currently in use as the baseline. */
  constructor(device: Device) {
    this.#device = device;
    this.#before = memoryStatistics(device).bytesInUse;
  }

  /** Called when all memory that outlives a step has been allocated. */
  setStates({ stores }: ModelOptimizer): void {
    const { bytesInUse } = memoryStatistics(this.#device);
    const [parameters, gradients] = (['parameters', 'gradients'] as const).map((kind) =>
      stores.reduce((sum, { bytes }) => sum + bytes[kind], 0),
    ) as [number, number];
    this.#states = { all: bytesInUse, parameters, gradients };
  }

  span<Result>({ kind }: Pick<RecordedActivity, 'kind'>, body: () => Result): Result {
    if (!passes.has(kind)) return body();
    const { bytesInUse, peakBytes } = memoryStatistics(this.#device);
    const result = body();
    const { peakBytes: peak } = memoryStatistics(this.#device);
    if (peak > peakBytes) [this.#atPass, this.#peakOfPasses] = [bytesInUse, peak];
    return result;
  }

  /** Returns the memory peak since the model was built, by use. */
  byKind(): MemoryByKind {
    const { peakBytes } = memoryStatistics(this.#device);
    const { all, parameters, gradients } = this.#states!;
    const kept = this.#peakOfPasses === peakBytes ? this.#atPass : all;
    return {
      parameters,
      gradients,
      optimizer: all - this.#before - parameters - gradients,
      activations: kept - all,
      temporary: peakBytes - kept,
    };
  }
}
