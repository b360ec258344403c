import { type PretrainingConfiguration, scheduleOfStep } from '@mtl/configuration';
import type { RecordedPasses, RecordedStep } from '@mtl/planner';
import { type DryRun, dryRun } from '../dry-run/dry-run.js';
import { isPipelineInside, rankGroups } from './rank-groups.js';
import { StepRecording } from './step-recording.js';

/** A dry run, with what the time of its step depends on. */
export interface RecordedRun extends DryRun {
  readonly step: RecordedStep;
}

/**
 * Dry runs a training run and records its step.
 *
 * @param gpusPerNode ranks of one node, which decides over which links groups communicate
 * @throws whatever building the run throws, such as ConfigurationError
 */
export async function recordRun(
  configuration: PretrainingConfiguration,
  { gpusPerNode }: { readonly gpusPerNode: number },
): Promise<RecordedRun> {
  const { parallel, training } = configuration;
  const groupNamed = rankGroups(parallel, gpusPerNode);
  const recordings = new Map<number, StepRecording>();
  const run = await dryRun(configuration, {
    // tensor-parallel ranks run the same operations
    listenerOf: ({ tp, pp }) => {
      if (tp > 0) return undefined;
      const recording = new StepRecording(groupNamed, { overlapsGather: parallel.overlapParamGather });
      recordings.set(pp, recording);
      return recording;
    },
  });
  const schedule = scheduleOfStep(parallel, training.numMicroBatches);
  const stages = Array.from({ length: parallel.pipelineModelParallelSize }, (_, pp) => recordings.get(pp)!);
  const message = stages.find((recording) => recording.message !== undefined)?.message;
  return {
    ...run,
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
