export { type PredictStepOptions, predictStep, replayStep } from './measured/measured-step.js';
export { mergeTraces, type RankTrace, type RecordedOperation } from './measured/merge-traces.js';
export type { RecordedActivity, RecordedSpan } from './measured/pipeline-recorder.js';
export { readTrace, type TracedPipeline } from './measured/read-trace.js';
export { type ChromeTrace, chromeTrace, type TraceEvent } from './pictures/chrome-trace.js';
export { formatTimeline, timelineLegend } from './pictures/format-timeline.js';
export { comparisonSvg, timelineSvg } from './pictures/timeline-svg.js';
export { formatScheduleCsv, parseScheduleCsv } from './schedule-csv.js';
export { breadthFirst, gpipe } from './schedules/all-forward-all-backward.js';
export {
  buildSchedule,
  type ScheduleName,
  type ScheduleNameOrOther,
  scheduleNames,
} from './schedules/build-schedule.js';
export { interleaved } from './schedules/interleaved.js';
export { oneForwardOneBackward, oneStage } from './schedules/one-forward-one-backward.js';
export type {
  PassKind,
  PipelineSchedule,
  ScheduleAction,
  ScheduleFunction,
  ScheduleSize,
} from './schedules/pipeline-schedule.js';
export { zeroBubbleH1, zeroBubbleH2 } from './schedules/zero-bubble-h.js';
export { zeroBubbleV } from './schedules/zero-bubble-v.js';
export { assertSchedule, checkSchedule, type ScheduleProblem } from './simulator/check-schedule.js';
export {
  type ActivationSizes,
  type PeakActivations,
  type PerChunk,
  peakActivations,
} from './simulator/peak-activations.js';
export { waitingTensors } from './simulator/plan-messages.js';
export type { TimedPass } from './simulator/run-in-order.js';
export {
  type PassTimes,
  type SimulatedRank,
  type SimulateOptions,
  type Simulation,
  simulateSchedule,
} from './simulator/simulate-schedule.js';
