import { ncclMessageChannels } from '@mtl/comm/internal';
import type { ParsedFlags, PretrainingConfiguration } from '@mtl/configuration';
import { configurationOption } from '@mtl/configuration/internal';
import { meshOfRun, rankLike } from '@mtl/configuration/strategies';
import {
  communicatorBytes,
  type GroupUse,
  listedMemory,
  type Profile,
  peakFlops,
  predictRecordedStep,
  predictStepTime,
  type StepBreakdown,
  type StepPrediction,
} from '@mtl/cost-model';
import { profileOfRun, scheduleOfLayout } from '@mtl/cost-model/internal';
import { checkArgument, checkOptions, type OptionChecks, required } from '@mtl/errors/options';
import { cublasltWorkspaceBytes } from '@mtl/kernels/internal';
import { findStage } from '@mtl/layout';
import type { TransformerConfiguration } from '@mtl/models';
import type { Simulation } from '@mtl/pipeline/schedules';
import {
  chooseThreads,
  describeFlopsShape,
  findRecipe,
  flopsPerMicroBatch,
  planMicroBatches,
} from '@mtl/runs/internal';
import { modelFlops } from '@mtl/trainer';
import type { ShardingTraffic } from '../dry-run/communication-scopes.js';
import { type DryRunOptions, dryRunModel } from '../dry-run/dry-run.js';
import type { DryRunRank, MemoryByKind } from '../dry-run/dry-run-rank.js';
import { bytesOption, profileOption } from '../option-checks.js';
import { listedStep } from './listed-step.js';
import { recordRun } from './record-run.js';

export interface PlanRunOptions {
  readonly profile: Profile;
  /** The memory that each process may use, in bytes. Default: the memory in the profile. */
  readonly memoryBytes?: number | undefined;
}

const checks: OptionChecks<PlanRunOptions> = {
  profile: required(profileOption),
  memoryBytes: bytesOption,
};

/** Ranks that need equal amounts of memory. */
export interface PlannedRanks {
  /** The global ranks, ascending. */
  readonly ranks: readonly number[];
  /** The pipeline stages of the ranks, ascending. */
  readonly stages: readonly number[];
  /** The allocator's peak in bytes. */
  readonly memoryBytes: number;
  readonly memoryByKind: MemoryByKind;
  /**
   * The bytes that libraries take in addition to `memoryBytes`; absent if they take none, or if the number is
   * unknown.
   */
  readonly memoryOfLibraries?: LibraryMemory | undefined;
}

/** The predicted memory and time of a training run. */
export interface RunPlan {
  readonly numParameters: number;
  /** The number of parameters that are used for a token; absent if all are used. */
  readonly numActiveParameters?: number | undefined;
  readonly iterationSeconds: number;
  /**
   * The model FLOPs of a process, divided by the time of a step, in TFLOP/s. Attention counts in full, and
   * recomputation does not count.
   */
  readonly teraflopsPerGpu: number;
  /**
   * The utilization as a fraction of the profile's peak rate. Attention counts in full, or only its causal
   * half (see `modelFlops`).
   */
  readonly utilization: { readonly full: number; readonly causal: number };
  /** The duration of the complete training run in seconds, without evaluation and checkpoints. */
  readonly trainingSeconds: number;
  /** True if each process has enough memory for its allocator and libraries. */
  readonly fits: boolean;
  /** Memory of each process, in bytes. */
  readonly capacityBytes: number;
  readonly ranks: readonly PlannedRanks[];
  /**
   * Peak bytes of the rank with the most memory if all tokens are routed to the experts of a single rank. All
   * other values assume even routing. Absent if experts are not sharded.
   */
  readonly unevenMemoryBytes?: number;
  /**
   * The bytes that a rank sends in one step to gather and reduce sharded states, for the rank that sends the
   * most. Absent if the layout has a single instance and shards neither parameters nor gradients.
   */
  readonly shardingTraffic?: ShardingTraffic;
  /** Seconds of a step, by kind of work. */
  readonly breakdown: StepBreakdown;
  /** The simulated schedule of the step, in milliseconds. */
  readonly simulation: Simulation;
}

/**
 * Predicts the memory and time of a training run. For a profile with recorded operations, the prediction uses
 * a dry run. Otherwise it uses lists of the operations and the memory of the profile's program.
 *
 * @throws the errors of building the run, such as ConfigurationError; ConfigurationError `MTL_OPTION`;
 *   `MTL_PROFILE`, `MTL_PLAN_LAYOUT` for runs that the profile cannot predict
 */
export async function planRun(asked: PretrainingConfiguration, options: PlanRunOptions): Promise<RunPlan> {
  checkArgument(asked, { name: 'configuration', check: configurationOption });
  checkOptions(options, { of: 'planRun', checks });
  return await plan(asked, options);
}

/** Thrown to end a plan's dry run at the first rank that does not fit. */
class TooLargeRank extends Error {}

/**
 * Predicts a run as `planRun` does, but returns undefined if the run does not fit. With recorded operations,
 * the dry run ends at the first rank that does not fit.
 */
export async function planIfFits(
  configuration: PretrainingConfiguration,
  options: PlanRunOptions & { readonly memoryBytes: number },
): Promise<RunPlan | undefined> {
  const onRank = ({ peakBytes }: DryRunRank): void => {
    if (peakBytes > options.memoryBytes) throw new TooLargeRank();
  };
  try {
    const planned = await plan(configuration, { ...options, onRank });
    return planned.fits ? planned : undefined;
  } catch (error) {
    if (error instanceof TooLargeRank) return undefined;
    throw error;
  }
}

async function plan(
  asked: PretrainingConfiguration,
  options: PlanRunOptions & Pick<DryRunOptions, 'onRank'>,
): Promise<RunPlan> {
  const numThreads = await plannedThreads(asked, options.profile);
  // memory also depends on the number of threads, because each thread has scratch memory for kernels
  const configuration = withThreads(asked, numThreads);
  const { training, parallel } = configuration;
  const { worldSize: numProcesses } = parallel;
  const profile = profileOfRun({ profile: options.profile, numProcesses, numThreads });
  const { memoryBytes = profile.hardware.memoryBytes.value } = options;
  const { model, ranks, prediction, unevenPeakBytes, shardingTraffic } =
    profile.software.operations === 'recorded'
      ? await recordedPlan(configuration, { profile, onRank: options.onRank })
      : await listedPlan(configuration, profile);
  const iterationSeconds = prediction.seconds;
  const shape = describeFlopsShape(configuration, model);
  const computeRate = (attention: 'full' | 'causal'): number =>
    (training.globalBatchSize * modelFlops({ ...shape, attention })) /
    (parallel.worldSize * iterationSeconds);
  const peak = peakFlops(profile.hardware, training.precision);
  const samples = planMicroBatches(configuration).samplesAfter(training.trainIterations, training.start);
  return {
    numParameters: findRecipe(configuration).numParameters(model),
    numActiveParameters: findRecipe(configuration).numActiveParameters(model),
    iterationSeconds,
    teraflopsPerGpu: computeRate('full') / 1e12,
    utilization: { full: computeRate('full') / peak, causal: computeRate('causal') / peak },
    trainingSeconds: (samples / training.globalBatchSize) * iterationSeconds,
    fits: ranks.every((each) => wholeMemory(each) <= memoryBytes),
    capacityBytes: memoryBytes,
    ranks,
    ...(unevenPeakBytes === undefined
      ? {}
      : { unevenMemoryBytes: unevenPeakBytes + Math.max(...ranks.map(countLibraryBytes)) }),
    ...(shardingTraffic === undefined ? {} : { shardingTraffic }),
    breakdown: prediction.breakdown,
    simulation: inMilliseconds(prediction.simulation),
  };
}

function withThreads(
  configuration: PretrainingConfiguration,
  threads: number | undefined,
): PretrainingConfiguration {
  if (threads === undefined) return configuration;
  return { ...configuration, parallel: { ...configuration.parallel, threads } };
}

const countLibraryBytes = (ranks: PlannedRanks): number => wholeMemory(ranks) - ranks.memoryBytes;

interface Parts {
  readonly model: TransformerConfiguration;
  readonly ranks: readonly PlannedRanks[];
  readonly prediction: StepPrediction;
  /** The peak bytes with uneven routing (see `DryRun`). */
  readonly unevenPeakBytes?: number | undefined;
  readonly shardingTraffic?: ShardingTraffic | undefined;
}

const countTraffic = ({ gatheredBytes, reducedBytes, acrossInstancesBytes = 0 }: ShardingTraffic): number =>
  gatheredBytes + reducedBytes + acrossInstancesBytes;

async function recordedPlan(
  configuration: PretrainingConfiguration,
  { profile, onRank }: { readonly profile: Profile; readonly onRank: DryRunOptions['onRank'] },
): Promise<Parts> {
  const { worldSize: numProcesses } = configuration.parallel;
  const { hardware } = profile;
  const run = await recordRun(configuration, {
    gpusPerNode: hardware.gpusPerNode.value,
    hasRowSumRates: hardware.state === 'measured',
    ...(onRank === undefined ? {} : { onRank }),
  });
  const isOnGpu = configuration.parallel.device === 'cuda';
  const mesh = meshOfRun(configuration.parallel);
  const memoryByRank = new Map(
    run.ranks.map(({ rank, coordinates, peakBytes, memoryByKind }) => [
      rank,
      {
        memoryBytes: peakBytes,
        memoryByKind,
        memoryOfLibraries: isOnGpu ? libraryMemory(run.groups[findStage(coordinates)]!, profile) : undefined,
      },
    ]),
  );
  return {
    model: run.model,
    unevenPeakBytes: run.unevenPeakBytes,
    shardingTraffic: run.ranks
      .flatMap((rank) => rank.shardingTraffic ?? [])
      .reduce<ShardingTraffic | undefined>(
        (most, each) => (most !== undefined && countTraffic(most) >= countTraffic(each) ? most : each),
        undefined,
      ),
    ranks: groupedRanks(configuration, (rank) => memoryByRank.get(rankLike(mesh, rank))!),
    prediction: predictRecordedStep({ step: run.step, profile, numProcesses }),
  };
}

async function listedPlan(configuration: PretrainingConfiguration, profile: Profile): Promise<Parts> {
  const { model } = await dryRunModel(configuration);
  const step = listedStep(configuration, { model, profile });
  const prediction = predictStepTime(step);
  const memories = listedMemory(step, scheduleOfLayout(step.layout));
  return {
    model,
    prediction,
    ranks: groupedRanks(configuration, (_, stage) => {
      const memoryByKind = memories[stage]!;
      const memoryBytes = Object.values(memoryByKind).reduce((sum: number, bytes: number) => sum + bytes, 0);
      return { memoryBytes, memoryByKind };
    }),
  };
}

/** Returns all ranks of the run, in groups with equal memory. */
function groupedRanks(
  { parallel }: PretrainingConfiguration,
  describeMemory: (rank: number, stage: number) => Omit<PlannedRanks, 'ranks' | 'stages'>,
): PlannedRanks[] {
  const mesh = meshOfRun(parallel);
  const groups = new Map<string, PlannedRanks & { readonly ranks: number[]; readonly stages: number[] }>();
  for (let rank = 0; rank < parallel.worldSize; rank++) {
    const stage = findStage(mesh.coordinatesOf(rank));
    const memory = describeMemory(rank, stage);
    const key = JSON.stringify(memory);
    const group = groups.get(key) ?? { ranks: [], stages: [], ...memory };
    groups.set(key, group);
    group.ranks.push(rank);
    if (group.stages.at(-1) !== stage) group.stages.push(stage);
  }
  return [...groups.values()];
}

/** Converts a simulation to milliseconds, the time unit of pictures and traces. */
function inMilliseconds(simulation: Simulation): Simulation {
  const { ranks, makespan, stepTime, optimizerTime } = simulation;
  return {
    ...simulation,
    makespan: 1000 * makespan,
    stepTime: 1000 * stepTime,
    optimizerTime: 1000 * optimizerTime,
    ranks: ranks.map((rank) => ({
      ...rank,
      passes: rank.passes.map(({ action, start, end }) => ({ action, start: 1000 * start, end: 1000 * end })),
      stepStart: 1000 * rank.stepStart,
      optimizerStart: 1000 * rank.optimizerStart,
      busy: 1000 * rank.busy,
      idle: 1000 * rank.idle,
    })),
  };
}

/**
 * Returns the number of threads that a rank of the run would choose on the profile's machine if all cores
 * were free. Undefined for GPUs, because their times do not depend on threads.
 */
async function plannedThreads(
  configuration: PretrainingConfiguration,
  { hardware }: Profile,
): Promise<number | undefined> {
  if (isOfGpu(hardware)) return undefined;
  const { parallel } = configuration;
  const { model } = await dryRunModel(configuration);
  const numCores = hardware.gpusPerNode.value;
  const numProcesses = Math.min(parallel.worldSize, numCores);
  const { count } = await chooseThreads({
    given: parallel.threads,
    recorded: undefined,
    flopsPerMicroBatch: flopsPerMicroBatch(
      configuration,
      modelFlops(describeFlopsShape(configuration, model)),
    ),
    cores: Math.floor(numCores / numProcesses),
    measureFreeCores: async () => undefined,
  });
  return count;
}

interface Memory {
  readonly memoryBytes: number;
  readonly memoryOfLibraries?: LibraryMemory | undefined;
}

/** Returns a rank's bytes in the allocator and in libraries, together. */
export function wholeMemory({ memoryBytes, memoryOfLibraries }: Memory): number {
  const { matmulWorkspace = 0, communicators = 0 } = memoryOfLibraries ?? {};
  return memoryBytes + matmulWorkspace + communicators;
}

/**
 * The bytes that libraries take on a rank's GPU, outside of the allocator. The CUDA context is not counted.
 */
export interface LibraryMemory {
  /** Bytes of cuBLASLt's workspace. */
  readonly matmulWorkspace: number;
  /** The bytes of NCCL's communicator buffers (see `communicatorBytes` in @mtl/cost-model). */
  readonly communicators: number;
}

/** Returns true if a profile describes GPUs. Profiles of CPUs are always measured. */
const isOfGpu = (hardware: Profile['hardware']): boolean =>
  hardware.state !== 'measured' || hardware.deviceType === 'cuda';

/** Returns the bytes that libraries take; undefined for CPUs, where they are negligible. */
function libraryMemory(uses: readonly GroupUse[], { hardware }: Profile): LibraryMemory | undefined {
  if (!isOfGpu(hardware)) return undefined;
  return {
    matmulWorkspace: cublasltWorkspaceBytes,
    communicators: communicatorBytes(uses, { gpu: hardware, messageChannels: ncclMessageChannels }),
  };
}

/**
 * Returns the flags of a run on the profile's machine. For a profile of GPUs, adds `--device cuda` unless
 * --device is given.
 */
export function withDeviceOfProfile(flags: ParsedFlags, { name, hardware }: Profile): ParsedFlags {
  if (!isOfGpu(hardware) || flags.given.has('device')) return flags;
  return {
    ...flags,
    values: { ...flags.values, device: 'cuda' },
    sources: new Map([...flags.sources, ['device', `profile ${name}`]]),
  };
}
