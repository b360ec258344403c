/** The progress of a training run. A checkpoint stores it together with the tensors. */
export interface TrainingProgress {
  readonly iteration: number;
  readonly consumedSamples: number;
  readonly consumedTokens: number;
}

/** The metrics of a finished training step. */
export interface StepMetrics {
  /** The number of the step, counted from 1. A resumed run continues the count. */
  readonly iteration: number;
  /** Samples consumed up to and including this step. */
  readonly consumedSamples: number;
  /** Tokens consumed up to and including this step. */
  readonly consumedTokens: number;
  /** The number of samples in this step, over all data-parallel ranks. */
  readonly globalBatchSize: number;
  /**
   * The mean loss over the step's tokens, in nats, before any loss scale. If there are several losses, this
   * is the loss called `lm_loss` (for BERT, the loss of the masked tokens), or the total if no loss has this
   * name.
   */
  readonly loss: number;
  /** The norm of all gradients before clipping; infinite or NaN if a gradient overflowed. */
  readonly gradNorm: number;
  readonly learningRate: number;
  /** The learning rate of the word embedding and the output layer. Absent if it equals `learningRate`. */
  readonly decoupledLearningRate?: number;
  readonly lossScale: number;
  /**
   * True if the weights did not change because a gradient overflowed, an extension rejected the update, or
   * the step was left out.
   */
  readonly skipped: boolean;
  /**
   * True if the samples were consumed without being trained on (--iterations-to-skip). In this case, the
   * losses and the gradient norm are NaN, and the learning rates are 0.
   */
  readonly isLeftOut?: true;
  /**
   * The wall-clock time of the step, in milliseconds. If steps overlap, this is the time since the end of the
   * previous step.
   */
  readonly stepMs: number;
  readonly tokensPerSecond: number;
  /** Model FLOPs per second during this step, in units of 1e12 (see `modelFlops`). */
  readonly modelTflops: number;
  /**
   * The peak number of bytes in tensors so far, on the rank with the highest peak. The memory of Node.js and
   * its libraries is not counted.
   */
  readonly peakBytes: number;
  /**
   * Further losses of a step, by their names in metrics.jsonl: BERT's `sop_loss`; the `total_loss`, from
   * which gradients are computed; and auxiliary losses, which do not count in the total.
   */
  readonly otherLosses?: Readonly<Record<string, number>>;
  /** Events of the step. */
  readonly events?: readonly TrainingEvent[];
  /**
   * True if training returns to the newest checkpoint after this step, and continues with the next samples.
   */
  readonly rollsBack?: boolean;
}

/** An event in a training run, for users and for the metrics file. */
export interface TrainingEvent {
  /** The `type` of the event's record in metrics.jsonl. */
  readonly type: 'spike' | 'rerun' | 'roll_back' | 'ranks' | 'slow_rank' | (string & {});
  readonly iteration: number;
  /** A message for users, with one or more lines. Absent if the event is recorded but not printed. */
  readonly text?: string;
  /** The further fields of the event's record, as JSON. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A loss on held-out data. */
export interface ValidationLoss {
  readonly iteration: number;
  /**
   * The mean over the evaluated tokens, in nats. With several losses, this is the loss called `lm_loss`, or
   * the total if no loss has this name. Early stopping uses this loss, and it determines the best evaluation
   * of a run.
   */
  readonly loss: number;
  /**
   * Further losses by name: BERT's `sop_loss`, the `total_loss`, and auxiliary losses, which are not part of
   * the total.
   */
  readonly otherLosses?: Readonly<Record<string, number>>;
  /**
   * The names of the losses that are means over tokens, and therefore have a perplexity. Default: `lm_loss`
   * if it is the only loss.
   */
  readonly tokenLosses?: readonly string[];
}

/** The loss of an evaluation, and the iteration after which it was evaluated. */
export type EvaluatedStep = Pick<ValidationLoss, 'iteration' | 'loss'>;

/** A loss on held-out data for reports. */
interface ValidationMetric {
  /** The name of the loss, such as `lm_loss`. */
  readonly key: string;
  readonly value: number;
  /**
   * The perplexity, e^loss, of a loss that is a mean over tokens; undefined for any other loss, for which
   * e^loss has no meaning.
   */
  readonly perplexity: number | undefined;
}

/**
 * Returns the metrics of an evaluation. The language model's loss comes first. Perplexities are capped at
 * e^20, as in Megatron-LM.
 */
export function validationMetrics({
  loss,
  otherLosses = {},
  tokenLosses,
}: ValidationLoss): readonly [ValidationMetric, ...ValidationMetric[]] {
  const isWhole = Object.keys(otherLosses).length === 0;
  const named = new Set(tokenLosses ?? (isWhole ? ['lm_loss'] : []));
  const metric = (key: string, value: number): ValidationMetric => ({
    key,
    value,
    perplexity: named.has(key) ? Math.exp(Math.min(20, value)) : undefined,
  });
  return [metric('lm_loss', loss), ...Object.entries(otherLosses).map(([key, value]) => metric(key, value))];
}

/**
 * A receiver of a training run's progress, such as the console, metrics.jsonl, TensorBoard or the summary.
 */
export interface TrainingReporter {
  step?(metrics: StepMetrics): void;
  validation?(result: ValidationLoss & { readonly consumedSamples: number }): void;
  /** Reports an event. The events of a step are reported after the step's metrics. */
  event?(event: TrainingEvent): void;
  message?(text: string): void;
}

/** How a run ended. A stopped run may be resumed later. */
export type RunOutcome = 'finished' | 'stopped' | 'failed';

/** A line of a run's summary. */
export type SummaryRow = readonly [name: string, value: string];

/** A destination for a run's metrics, such as the console, a file or a service. */
export interface MetricsSink extends TrainingReporter {
  /** Closes the sink when the run has ended. Further calls do nothing. Returns rows for the run's summary. */
  // biome-ignore lint/suspicious/noConfusingVoidType: most sinks have nothing to add.
  close(outcome: RunOutcome): void | Promise<readonly SummaryRow[]>;
}
