export { AttentionScores, type QkClip, type WatchedHeads } from './extensions/attention-scores.js';
export { EarlyStopping } from './extensions/early-stopping.js';
export { ExpertBalance } from './extensions/expert-balance.js';
export { Extensions } from './extensions/extensions.js';
export { DeviceClock, HostClock } from './extensions/rank-clocks.js';
export { RankWatch, type RankWatchOptions } from './extensions/rank-watch.js';
export { SpikeGuard, type SpikeGuardOptions } from './extensions/spike-guard.js';
export { stepRecording } from './extensions/step-recording.js';
export { StepRerun } from './extensions/step-rerun.js';
export type {
  MeasuredStep,
  StepSpan,
  StepVerdict,
  TrainerExtension,
} from './extensions/trainer-extension.js';
export { ConsoleReporter, type ConsoleStream } from './metrics/console-reporter.js';
export { formatBytes, formatDuration } from './metrics/format-quantities.js';
export { MetricsJsonlWriter } from './metrics/metrics-jsonl-writer.js';
export { type ModelFlopsShape, modelFlops } from './metrics/model-flops.js';
export type {
  EvaluatedStep,
  MetricsSink,
  RunOutcome,
  StepMetrics,
  SummaryRow,
  TrainingEvent,
  TrainingProgress,
  TrainingReporter,
  ValidationLoss,
} from './metrics/training-reports.js';
export { TrainingSummary } from './metrics/training-summary.js';
export { type RunTrainingOptions, runTraining, type TrainingResult } from './run-training.js';
export type { LossKind } from './steps/loss-kinds.js';
export { TapeStage } from './tape-stage.js';
export { type EvaluatedLoss, Trainer } from './trainer.js';
export type { LearningRate, StepAgreement, StepsOptions, TrainerOptions } from './trainer-options.js';
export type { SaveSettings } from './training-saves.js';
export {
  isOptimizerTensor,
  optimizerTensors,
  readParameterName,
  readTrainingState,
  trainingState,
  weightTensors,
} from './training-state.js';
