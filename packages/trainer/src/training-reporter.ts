import type { StepMetrics } from './metrics/step-metrics.js';
import type { ValidationLoss } from './metrics/validation-loss.js';
import type { TrainingEvent } from './training-event.js';

/** Receives the progress of a training run: console, metrics.jsonl, TensorBoard, the summary. */
export interface TrainingReporter {
  step?(metrics: StepMetrics): void;
  validation?(result: ValidationLoss & { readonly consumedSamples: number }): void;
  /** Something of note; those of a step come after its metrics. */
  event?(event: TrainingEvent): void;
  message?(text: string): void;
}
