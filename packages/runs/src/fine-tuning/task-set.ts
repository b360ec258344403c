import type { JsonValue } from '@mtl/checkpoint';
import type { TaskDataset } from '@mtl/data/tasks';

/** Entries [from, to). */
export interface IndexRange {
  readonly from: number;
  readonly to: number;
}

/** Scores by name: shares in percent. */
export type TaskMetrics = Readonly<Record<string, number>>;

/**
 * Examples that a model is evaluated on. An example has one sample, or several next to each other (the
 * windows of a question); its prediction is made from the logits of all of them, and is JSON, so that ranks
 * can tell each other.
 */
export interface TaskSet<Prediction extends JsonValue = JsonValue> {
  /** The file's name without its ending: `dev_matched`. */
  readonly name: string;
  readonly path: string;
  readonly dataset: TaskDataset;
  readonly numExamples: number;
  /** Whether predictions can be scored. */
  readonly hasLabels: boolean;
  samplesOf(examples: IndexRange): IndexRange;
  /** The predictions of some examples from the logits of their samples, in order. */
  predict(examples: IndexRange, logits: readonly Float32Array[]): Prediction[];
  /** The scores of the predictions of all examples. */
  metrics(predictions: readonly Prediction[]): TaskMetrics;
  /** Writes the predictions of all examples in the task's format into a folder; the files it wrote. */
  write(predictions: readonly Prediction[], directory: string): readonly string[];
}

/** What a model is trained on and evaluated on. */
export interface OpenedTask {
  readonly train: TaskDataset;
  readonly valid: readonly TaskSet[];
  readonly test: readonly TaskSet[];
  /** What is worth hearing about the files. */
  readonly notices: readonly string[];
}
