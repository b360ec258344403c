import { type PretrainingConfiguration, scheduleOfStep } from '@mtl/configuration';
import { metaDeviceOf } from '@mtl/kernels/internal';
import type { GroupUse, RecordedPasses, RecordedStep } from '@mtl/planner';
import { type DryRun, type DryRunOptions, dryRun } from '../dry-run/dry-run.js';
import { communicatorNames, isPipelineInside, rankGroups } from './rank-groups.js';
import { StepRecording } from './step-recording.js';

/** A dry run, with what the time of its step depends on. */
export interface RecordedRun extends DryRun {
  readonly step: RecordedStep;
  /** Of every chunk, bytes that the forward pass of a micro-batch leaves on its rank. */
  readonly keptBytes: readonly number[];
  /** What is left of them between the halves of backward; undefined where it is whole. */
  readonly keptForWeightBytes: readonly (number | undefined)[];
  /** Of every pipeline rank, the groups that it communicates in on its device. */
  readonly groups: readonly (readonly GroupUse[])[];
}

export interface RecordRunOptions extends Pick<DryRunOptions, 'isRun' | 'withUneven'> {
  /** Ranks of one node, which decides over which links groups communicate. */
  readonly gpusPerNode: number;
}

/**
 * Dry runs a training run and records its step. The first tensor-parallel rank of every stage has to be run.
 *
 * @throws whatever building the run throws, such as ConfigurationError
 */
export async function recordRun(
  configuration: PretrainingConfiguration,
  { gpusPerNode, ...options }: RecordRunOptions,
): Promise<RecordedRun> {
  const { parallel, training } = configuration;
  const groupNamed = rankGroups(parallel, gpusPerNode);
  const communicatorOf = communicatorNames(parallel);
  const recordings = new Map<number, StepRecording>();
  const run = await dryRun(configuration, {
    ...options,
    // tensor-parallel ranks run the same operations
    listenerOf: ({ tp, pp }) => {
      if (tp > 0) return undefined;
      const recording = new StepRecording({
        groupNamed,
        communicatorOf,
        device: metaDeviceOf(parallel.device),
        overlapsGather: parallel.overlapParamGather,
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
