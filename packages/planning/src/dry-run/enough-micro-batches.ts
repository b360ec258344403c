import { type PretrainingConfiguration, scheduleOfStep } from '@mtl/configuration';
import { MtlError } from '@mtl/errors';
import { type PipelineSchedule, peakActivations } from '@mtl/pipeline/schedules';

/**
 * How many micro-batches of a step show all that it takes: after them passes repeat. As many as have the same
 * activations in flight at the worst moment of every rank; all of a schedule that keeps all of them, or that
 * a file or a module gives.
 */
export function enoughMicroBatches({ parallel, training }: PretrainingConfiguration): number {
  const { numMicroBatches } = training;
  const { pipelineScheduleCsv, pipelineScheduleModule, microBatchGroupSize } = parallel;
  if (pipelineScheduleCsv !== undefined || pipelineScheduleModule !== undefined) return numMicroBatches;
  // schedules that go through groups of micro-batches need whole ones
  const unit = microBatchGroupSize ?? parallel.pipelineModelParallelSize;
  const all = inFlight(scheduleOfStep(parallel, numMicroBatches));
  for (let count = 2 * unit; count < numMicroBatches; count += unit) {
    const schedule = scheduleIfAny(() => scheduleOfStep(parallel, count));
    if (schedule !== undefined && inFlight(schedule) === all) return count;
  }
  return numMicroBatches;
}

const inFlight = (schedule: PipelineSchedule): string => JSON.stringify(peakActivations(schedule));

/** Undefined for a number of micro-batches that the schedule cannot have. */
function scheduleIfAny(build: () => PipelineSchedule): PipelineSchedule | undefined {
  try {
    return build();
  } catch (error) {
    if (MtlError.isInstance(error)) return undefined;
    throw error;
  }
}
