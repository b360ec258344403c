import { hostname } from 'node:os';
import type { ProcessGroup, World } from '@mtl/comm';
import type { PretrainingConfiguration } from '@mtl/configuration';
import { type MicroBatchSamplerOptions, type SampleDataset, sampleMicroBatches } from '@mtl/data';
import { documentsOfSamples, shareOfSampler } from '@mtl/data/internal';
import { memoryStatistics, Tensor } from '@mtl/kernels';
import { type NumberedBatch, wholeBatch } from '@mtl/layout';
import type { GroupsByRole, ModelOptimizer } from '@mtl/optimizer';
import {
  AttentionScores,
  DeviceClock,
  ExpertBalance,
  HostClock,
  type LossKind,
  RankWatch,
  type RankWatchOptions,
  SpikeGuard,
  type SpikeGuardOptions,
} from '@mtl/trainer';
import { nameOfTotal, Ranks } from '@mtl/trainer/internal';
import type { RankStages } from '../parts/models/build-stages.js';
import { layersWithExperts } from '../parts/models/gpt-recipe.js';
import type { TrainingProcesses } from '../parts/ranks/training-processes.js';

/**
 * The minimum intervals, in milliseconds, between two searches for slow ranks and between two reports of slow
 * ranks. Default: the intervals of normal runs.
 */
export type RankWatchTimes = Pick<RankWatchOptions, 'leastIntervalMs' | 'leastReportMs'>;

/**
 * Returns the extension that finds slow ranks. Returns undefined for a single process, and for GPUs that
 * communicate through host memory, because the host's waiting time then includes more than communication.
 */
export function createRankWatch(
  { logging, parallel }: Pick<PretrainingConfiguration, 'logging' | 'parallel'>,
  {
    processes,
    hosts,
    world: joined,
    times,
  }: {
    readonly processes: TrainingProcesses;
    readonly hosts: readonly string[];
    /**
     * The world of the run's processes. On GPUs, it measures how long the processes wait for communication.
     */
    readonly world: World | undefined;
    readonly times?: RankWatchTimes | undefined;
  },
): RankWatch | undefined {
  const { groups, mesh } = processes;
  const { world } = groups;
  const { device } = parallel;
  const clock =
    joined?.deviceWaits !== undefined
      ? new DeviceClock({ waits: joined.deviceWaits })
      : device === 'cpu'
        ? new HostClock({ waitedSeconds: () => waitedSeconds(groups) })
        : undefined;
  if (world === undefined || clock === undefined) return undefined;
  return new RankWatch({
    world,
    hosts,
    clock,
    peers: Array.from({ length: mesh.sizes.pp }, (_, stage) => mesh.ranksOfStage(stage)),
    interval: logging.logInterval,
    peakBytes: () => memoryStatistics(device).peakBytes,
    ...times,
  });
}

interface SpikeGuardOfOptions {
  /** The kinds of losses of the model. */
  readonly losses: readonly LossKind<NumberedBatch>[];
  readonly dataset: SampleDataset<NumberedBatch>;
  /** The sampler options that determine the order in which the training run reads samples. */
  readonly sampler: Omit<MicroBatchSamplerOptions, 'totalSamples'>;
  /** True if this rank prints messages that name the sources of samples. */
  readonly reports: boolean;
}

/**
 * Returns the extension that detects spikes, with settings from the flags; undefined if the flags disable it.
 */
export function createSpikeGuard(
  { spikes }: Pick<PretrainingConfiguration, 'spikes'>,
  { losses, dataset, sampler, reports }: SpikeGuardOfOptions,
): SpikeGuard | undefined {
  const { policy, gradientNormSkipThreshold, rerunMode } = spikes;
  const isUsed = policy !== 'ignore' || gradientNormSkipThreshold !== undefined || rerunMode !== undefined;
  if (!isUsed) return undefined;
  const listSources: SpikeGuardOptions['listSources'] = (step) =>
    documentsOfSamples(dataset, samplesOfStep({ ...sampler, totalSamples: dataset.length }, step));
  return new SpikeGuard({
    ...spikes,
    nameOfTotal: nameOfTotal(losses),
    ...(reports ? { listSources } : {}),
  });
}

/** Returns the samples that all ranks read together in a step. */
export function samplesOfStep(
  sampler: MicroBatchSamplerOptions,
  step: { readonly consumedSamples: number; readonly globalBatchSize: number },
): readonly number[] {
  const { microBatchSize } = sampler;
  const { count } = shareOfSampler(sampler);
  const microBatches = sampleMicroBatches({
    ...sampler,
    // with this multiple, an epoch contains the same samples as an epoch on the ranks
    epochMultiple: sampler.epochMultiple ?? microBatchSize * count,
    consumedSamples: step.consumedSamples,
    microBatchSize: 1,
    shareOfBatch: wholeBatch,
  });
  return Array.from({ length: step.globalBatchSize }, () => microBatches.next().value ?? []).flat();
}

/**
 * Returns the extension that counts each expert's tokens and adjusts the expert biases; undefined for a model
 * without experts.
 */
export function createExpertBalance(
  { logging }: Pick<PretrainingConfiguration, 'logging'>,
  {
    model,
    part,
    processes,
  }: {
    readonly model: Parameters<typeof layersWithExperts>[0];
    readonly part: Pick<RankStages, 'stages'>;
    readonly processes: TrainingProcesses;
  },
): ExpertBalance | undefined {
  const layers = layersWithExperts(model);
  if (layers.length === 0) return undefined;
  return new ExpertBalance({
    loads: [...part.stages.values()].flatMap(({ expertLoads = [] }) => expertLoads),
    layers: layers.map((layer) => `decoder.layers.${layer}.mlp`),
    numExperts: model.numExperts!,
    ranks: new Ranks({ groups: processes.groups }),
    interval: logging.logInterval,
  });
}

/**
 * Returns the extension that reports the largest attention scores and clips heads (QK-clip); undefined for a
 * run that needs neither.
 */
export function createAttentionScores(
  { logging, optimizer: settings }: Pick<PretrainingConfiguration, 'logging' | 'optimizer'>,
  {
    part,
    optimizer,
    processes,
  }: {
    readonly part: Pick<RankStages, 'stages'>;
    readonly optimizer: ModelOptimizer;
    readonly processes: TrainingProcesses;
  },
): AttentionScores | undefined {
  const { qkClip, qkClipAlpha: alpha, qkClipThreshold: threshold } = settings;
  if (!qkClip && !logging.logMaxAttentionLogit) return undefined;
  return new AttentionScores({
    watched: [...part.stages.values()].flatMap(({ headScores = [] }) => headScores),
    optimizer,
    ranks: new Ranks({ groups: processes.groups }),
    clip: qkClip ? { alpha, threshold } : undefined,
    interval: logging.logInterval,
  });
}

/**
 * The number of bytes for each host name when names are gathered. It is the maximum length on Linux
 * (HOST_NAME_MAX).
 */
const mostBytes = 64;

/** Returns the host names of all ranks in a group, by rank. All ranks must call this function. */
export function hostNames(group: ProcessGroup | undefined, name = hostname()): readonly string[] {
  if (group === undefined) return [name];
  const bytes = new Uint8Array(mostBytes);
  new TextEncoder().encodeInto(name, bytes);
  using input = Tensor.from(bytes, { shape: [mostBytes], dtype: 'uint8' });
  using output = Tensor.zeros({ shape: [mostBytes * group.size], dtype: 'uint8', device: 'cpu' });
  group.allGather({ output, input }).wait();
  const all = output.read<'uint8'>();
  return Array.from({ length: group.size }, (_, rank) => {
    const padded = all.subarray(rank * mostBytes, (rank + 1) * mostBytes);
    const end = padded.indexOf(0);
    return new TextDecoder().decode(padded.subarray(0, end < 0 ? mostBytes : end));
  });
}

/** Returns how many seconds this process has waited for communication in its groups. */
export function waitedSeconds(groups: GroupsByRole): number {
  const distinct = new Set(
    Object.values(groups).filter((group): group is ProcessGroup => group !== undefined),
  );
  const operations = [...distinct].flatMap((group) => Object.values(group.statistics()));
  return operations.reduce((sum, { waitedSeconds }) => sum + waitedSeconds, 0);
}
