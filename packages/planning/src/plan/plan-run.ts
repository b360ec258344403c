import { ncclMessageChannels } from '@mtl/comm/internal';
import type { ParsedFlags, PretrainingConfiguration } from '@mtl/configuration';
import { configurationOption, meshOfRun, rankLike } from '@mtl/configuration/internal';
import {
  communicatorBytes,
  type GroupUse,
  listedMemory,
  type Profile,
  predictRecordedStep,
  predictStepTime,
  type StepBreakdown,
  type StepPrediction,
} from '@mtl/cost-model';
import { peakFlops, profileOfRun, scheduleOfLayout } from '@mtl/cost-model/internal';
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
import { type DryRunOptions, dryRunModel } from '../dry-run/dry-run.js';
import type { DryRunRank, MemoryByKind } from '../dry-run/dry-run-rank.js';
import { bytesOption, profileOption } from '../option-checks.js';
import { listedStep } from './listed-step.js';
import { recordRun } from './record-run.js';

export interface PlanRunOptions {
  readonly profile: Profile;
  /** Memory of each process, in bytes. Default: the memory in the profile. */
  readonly memoryBytes?: number | undefined;
}

const checks: OptionChecks<PlanRunOptions> = {
  profile: required(profileOption),
  memoryBytes: bytesOption,
};

/** Ranks with the same memory. */
export interface PlannedRanks {
  /** Global ranks, ascending. */
  readonly ranks: readonly number[];
  /** The pipeline stages of the ranks, ascending. */
  readonly stages: readonly number[];
  /** Peak of the allocator. */
  readonly memoryBytes: number;
  readonly memoryByKind: MemoryByKind;
  /** Bytes of libraries, not in `memoryBytes`; absent if libraries take none, or for an unknown program. */
  readonly memoryOfLibraries?: LibraryMemory | undefined;
}

/** Memory and time of a training run, before it is started. */
export interface RunPlan {
  readonly numParameters: number;
  /** Parameters that a token uses; absent if it uses all. */
  readonly numActiveParameters?: number | undefined;
  readonly iterationSeconds: number;
  /** Model FLOPs of one process over the time of a step: attention in full, recomputation not counted. */
  readonly teraflopsPerGpu: number;
  /** Fractions of the profile's peak FLOP/s, by how attention is counted (see `modelFlops`). */
  readonly utilization: { readonly full: number; readonly causal: number };
  /** Seconds of the whole training run, without evaluation and checkpoints. */
  readonly trainingSeconds: number;
  /** True if each process has enough memory for its allocator and libraries. */
  readonly fits: boolean;
  /** Memory of each process. */
  readonly capacityBytes: number;
  readonly ranks: readonly PlannedRanks[];
  /**
   * Bytes of the fullest rank if all tokens choose the experts of one rank; all other values assume even
   * routing. Absent if experts are not sharded over ranks.
   */
  readonly unevenMemoryBytes?: number;
  /** Seconds of a step by use. */
  readonly breakdown: StepBreakdown;
  /** The step on a clock whose time unit is a millisecond. */
  readonly simulation: Simulation;
}

/**
 * Predicts memory and time of a training run. If the profile has recorded operations, the prediction comes
 * from a dry run; otherwise from lists of the operations and the memory of its program.
 *
 * @throws errors of building the run, such as ConfigurationError; ConfigurationError `MTL_OPTION`;
 *   `MTL_PROFILE`, `MTL_PLAN_LAYOUT` for runs that the profile cannot predict
 */
export async function planRun(asked: PretrainingConfiguration, options: PlanRunOptions): Promise<RunPlan> {
  checkArgument(asked, { name: 'configuration', check: configurationOption });
  checkOptions(options, { of: 'planRun', checks });
  return await plan(asked, options);
}

/** Ends the dry run of a plan at a rank that does not fit. */
class TooLargeRank extends Error {}

/**
 * Predicts a run as `planRun` does, unless it does not fit. If operations are recorded, the first rank that
 * does not fit ends the dry run, and the result is undefined.
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
  // memory depends on threads, too: kernels have scratch for each thread
  const configuration = withThreads(asked, numThreads);
  const { training, parallel } = configuration;
  const { worldSize: numProcesses } = parallel;
  const profile = profileOfRun({ profile: options.profile, numProcesses, numThreads });
  const { memoryBytes = profile.hardware.memoryBytes.value } = options;
  const { model, ranks, prediction, unevenPeakBytes } =
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
  /** See `DryRun`. */
  readonly unevenPeakBytes?: number | undefined;
}

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
  const memoryOf = new Map(
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
    ranks: groupedRanks(configuration, (rank) => memoryOf.get(rankLike(mesh, rank))!),
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

/** Returns all ranks of the run, grouped by equal memory. */
function groupedRanks(
  { parallel }: PretrainingConfiguration,
  memoryOf: (rank: number, stage: number) => Omit<PlannedRanks, 'ranks' | 'stages'>,
): PlannedRanks[] {
  const mesh = meshOfRun(parallel);
  const groups = new Map<string, PlannedRanks & { readonly ranks: number[]; readonly stages: number[] }>();
  for (let rank = 0; rank < parallel.worldSize; rank++) {
    const stage = findStage(mesh.coordinatesOf(rank));
    const memory = memoryOf(rank, stage);
    const key = JSON.stringify(memory);
    const group = groups.get(key) ?? { ranks: [], stages: [], ...memory };
    groups.set(key, group);
    group.ranks.push(rank);
    if (group.stages.at(-1) !== stage) group.stages.push(stage);
  }
  return [...groups.values()];
}

/** Milliseconds per time unit in pictures and traces. */
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
 * Returns the threads of a rank's kernels that a run will choose on the machine of a measured profile with
 * free cores; undefined for models of GPUs, whose times do not depend on threads.
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

/** Returns the bytes of a rank: the allocator's bytes and the libraries' bytes. */
export function wholeMemory({ memoryBytes, memoryOfLibraries }: Memory): number {
  const { matmulWorkspace = 0, communicators = 0 } = memoryOfLibraries ?? {};
  return memoryBytes + matmulWorkspace + communicators;
}

/**
 * Returns the bytes that libraries take on the GPU of a rank, outside of the allocator. The CUDA context is
 * not counted.
 */
export interface LibraryMemory {
  /** cuBLASLt's workspace. */
  readonly matmulWorkspace: number;
  /** Buffers of NCCL's communicators, see `communicatorBytes` of @mtl/cost-model. */
  readonly communicators: number;
}

/** Tells a profile of GPUs from a profile of CPUs, which are always measured. */
const isOfGpu = (hardware: Profile['hardware']): boolean =>
  hardware.state !== 'measured' || hardware.deviceType === 'cuda';

/** Returns undefined for CPUs, where the memory of libraries is negligible. */
function libraryMemory(uses: readonly GroupUse[], { hardware }: Profile): LibraryMemory | undefined {
  if (!isOfGpu(hardware)) return undefined;
  return {
    matmulWorkspace: cublasltWorkspaceBytes,
    communicators: communicatorBytes(uses, { gpu: hardware, messageChannels: ncclMessageChannels }),
  };
}

/**
 * Returns the flags of a run on the machine of a profile: with device cuda for a profile of GPUs, unless
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
