export { EarlyStopping, type EarlyStoppingState } from './early-stopping.js';
export { ExpertBalance, type ExpertBalanceOptions, type LoadOfExperts } from './experts/expert-balance.js';
export { Extensions } from './extensions.js';
export type { LossKind } from './loss-kind.js';
export { ConsoleReporter, type ConsoleReporterOptions, type ConsoleStream } from './metrics/console-line.js';
export { MetricsJsonlWriter, type MetricsJsonlWriterOptions } from './metrics/metrics-jsonl-writer.js';
export type { MetricsSink, RunOutcome, SummaryRow } from './metrics/metrics-sink.js';
export { type ModelFlopsShape, modelFlops } from './metrics/model-flops.js';
export type { StepMetrics } from './metrics/step-metrics.js';
export {
  type SummaryTextOptions,
  TrainingSummary,
  type TrainingSummaryOptions,
} from './metrics/training-summary.js';
export type { EvaluatedStep, ValidationLoss } from './metrics/validation-loss.js';
export { Ranks } from './ranks.js';
export { stepRecording } from './recording-extension.js';
export { StepRerun, type StepRerunOptions } from './rerun/step-rerun.js';
export {
  type EvaluationSettings,
  type OwnEvaluation,
  type RunTrainingOptions,
  runTraining,
  type TrainingResult,
  trainingSteps,
} from './run-training.js';
export { DeviceClock, type DeviceClockOptions } from './slow-ranks/device-clock.js';
export { HostClock, type HostClockOptions } from './slow-ranks/host-clock.js';
export type { RankClock } from './slow-ranks/rank-clock.js';
export { RankWatch, type RankWatchOptions } from './slow-ranks/rank-watch.js';
export type { SampleSource } from './spikes/sources-text.js';
export { SpikeGuard, type SpikeGuardOptions, type SpikeGuardState } from './spikes/spike-guard.js';
export type { MeasuredStep, StepVerdict } from './spikes/step-verdict.js';
export { StopSignals } from './stop-signals.js';
export { type TapeForward, type TapeLosses, TapeStage, type TapeStageOptions } from './tape-stage.js';
export { type EvaluatedLoss, type StepAgreement, type StepsOptions, Trainer } from './trainer.js';
export type { StepSpan, TrainerExtension } from './trainer-extension.js';
export type { LearningRate, TrainerOptions } from './trainer-options.js';
export {
  optimizerTensors,
  readTrainingState,
  type TrainingState,
  trainingState,
  weightTensors,
} from './training-checkpoint.js';
export type { TrainingEvent } from './training-event.js';
export type { TrainingProgress } from './training-progress.js';
export type { TrainingReporter } from './training-reporter.js';
export type { SaveSettings } from './training-saves.js';
