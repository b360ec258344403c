import type { PipelineSchedule, ScheduleNameOrOther } from '@mtl/pipeline/schedules';
import type { Recomputation } from '../operations/layer-shape.js';
import type { ModelSize } from '../operations/parameter-counts.js';
import type { ListedProfile } from '../profiles/profile.js';

/**
 * How GPUs share a step. Ranks of a tensor-parallel group are neighbours, then data, then pipeline.
 */
export interface Layout {
  readonly tensorParallelSize: number;
  readonly pipelineParallelSize: number;
  readonly dataParallelSize: number;
  /** v, chunks of each rank; with 2 or more the schedule is interleaved. Default 1. */
  readonly numChunks?: number;
  /**
   * The schedule, or its name for `buildSchedule`. Default `1f1b`, or `interleaved` with more than one chunk.
   * Lists have whole backward passes, not their halves.
   */
  readonly schedule?: ScheduleNameOrOther | PipelineSchedule;
  readonly microBatchSize: number;
  readonly globalBatchSize: number;
  readonly sequenceParallel?: boolean;
  readonly recomputation: Recomputation;
}

export interface StepOptions {
  readonly model: ModelSize;
  readonly layout: Layout;
  readonly profile: ListedProfile;
}
