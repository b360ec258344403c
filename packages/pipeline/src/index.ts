export { Pipeline, type PipelineOptions, type PipelineStep, type TrainingStep } from './executor/pipeline.js';
export { ActivityRecorder } from './measured/activity-recorder.js';
export type { PipelineRecorder, RecordedActivity, RecordedSpan } from './measured/pipeline-recorder.js';
export type { Stage, StageForward, StageLoss } from './stage.js';
