export { GraphedStage, type GraphedStageOptions } from './executor/graphed-stage.js';
export { Pipeline, type PipelineOptions, type PipelineStep, type TrainingStep } from './executor/pipeline.js';
export type { PipelineRecorder, RecordedActivity, RecordedSpan } from './measured/pipeline-recorder.js';
export { type StepListener, StepProfiler, type StepProfilerOptions } from './recording/step-profiler.js';
export type { WriteTraceOptions } from './recording/write-trace.js';
export type { LoadedBatch, LossFactors, Stage, StageForward, StageLoss, Upload } from './stage.js';
