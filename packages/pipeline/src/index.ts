export { Pipeline, type PipelineOptions, type PipelineStep, type TrainingStep } from './executor/pipeline.js';
export type { PipelineRecorder, RecordedActivity } from './executor/pipeline-recorder.js';
export type { Stage, StageForward, StageLoss } from './stage.js';
