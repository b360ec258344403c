/** The progress of a training run that a checkpoint must restore in addition to tensors. */
export interface TrainingProgress {
  readonly iteration: number;
  readonly consumedSamples: number;
  readonly consumedTokens: number;
}

/** Metrics of one training step, once it is done. */
export interface StepMetrics {
  /** Number of the step, from 1; counts the whole training run, resumed runs included. */
  readonly iteration: number;
  /** Samples consumed up to and including this step. */
  readonly consumedSamples: number;
  /** Tokens consumed up to and including this step. */
  readonly consumedTokens: number;
  /** Samples of this step over all data-parallel ranks. */
  readonly globalBatchSize: number;
  /**
   * Mean loss over the step's tokens, in nats, before any loss scale. With several losses, the loss called
   * `lm_loss` (of the masked tokens for BERT); without an `lm_loss`, the total.
   */
  readonly loss: number;
  /** Norm of all gradients before clipping; infinite or NaN when the step was skipped for an overflow. */
  readonly gradNorm: number;
  readonly learningRate: number;
  /** The learning rate of the word embedding and the output layer, if they have one of their own. */
  readonly decoupledLearningRate?: number;
  readonly lossScale: number;
  /** True if the weights did not change: a gradient overflowed, a guard refused, or the step was left out. */
  readonly skipped: boolean;
  /** True if nothing was computed from the samples: losses and gradient norm are NaN, rates are 0. */
  readonly isLeftOut?: true;
  /**
   * Wall-clock time of the step, in milliseconds; if steps overlap, the time between the ends of two steps.
   */
  readonly stepMs: number;
  readonly tokensPerSecond: number;
  /** Model FLOPs (see `modelFlops`) of the step per second, in 1e12. */
  readonly modelTflops: number;
  /**
   * Peak bytes of tensors so far, on the rank with the highest peak; Node.js and its libraries are not
   * counted.
   */
  readonly peakBytes: number;
  /**
   * Further losses of a step, by their name in metrics.jsonl: BERT's `sop_loss`; the `total_loss`, whose
   * gradients are computed; and auxiliary losses, which are not part of the total.
   */
  readonly otherLosses?: Readonly<Record<string, number>>;
  /** Events of the step. */
  readonly events?: readonly TrainingEvent[];
  /** True if training continues from the newest checkpoint, with the samples that follow. */
  readonly rollsBack?: boolean;
}

/** An event in a training run, for users and for the metrics file. */
export interface TrainingEvent {
  /** The type of its record in metrics.jsonl. */
  readonly type: 'spike' | 'rerun' | 'roll_back' | 'ranks' | 'slow_rank' | (string & {});
  readonly iteration: number;
  /** Text for users: one or more lines. Absent: the event is only recorded. */
  readonly text?: string;
  /** The other keys of its record, as JSON. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A loss on held-out data. */
export interface ValidationLoss {
  readonly iteration: number;
  /**
   * Mean over the evaluated tokens, in nats. With several losses, the loss called `lm_loss`; without an
   * `lm_loss`, the total. Early stopping and the best evaluation of a run use it.
   */
  readonly loss: number;
  /**
   * Further losses by name: BERT's `sop_loss`, the `total_loss`, and auxiliary losses, which are not part of
   * the total.
   */
  readonly otherLosses?: Readonly<Record<string, number>>;
  /**
   * Names of the losses that are means over tokens and so have a perplexity. Default: `lm_loss` if it is the
   * only loss.
   */
  readonly tokenLosses?: readonly string[];
}

/** The loss of an evaluation, and the step that it followed. */
export type EvaluatedStep = Pick<ValidationLoss, 'iteration' | 'loss'>;

/** A loss on held-out data as reports show it. */
interface ValidationMetric {
  /** The name of the loss, such as `lm_loss`. */
  readonly key: string;
  readonly value: number;
  /** The perplexity of a mean over tokens; e^loss of sums and other losses has no meaning. */
  readonly perplexity: number | undefined;
}

/**
 * Returns the metrics of an evaluation, the loss of the language model first. Perplexities are capped at
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

/** Receives the progress of a training run: console, metrics.jsonl, TensorBoard, the summary. */
export interface TrainingReporter {
  step?(metrics: StepMetrics): void;
  validation?(result: ValidationLoss & { readonly consumedSamples: number }): void;
  /** Reports an event; the events of a step come after its metrics. */
  event?(event: TrainingEvent): void;
  message?(text: string): void;
}

/** The end of a run; a stopped run may continue later. */
export type RunOutcome = 'finished' | 'stopped' | 'failed';

/** A fact of a run's summary. */
export type SummaryRow = readonly [name: string, value: string];

/** A destination for the metrics of a run: the console, a file, a service. */
export interface MetricsSink extends TrainingReporter {
  /** Called once the run has ended; further calls do nothing. Returns facts for the summary of the run. */
  // biome-ignore lint/suspicious/noConfusingVoidType: most sinks have nothing to add.
  close(outcome: RunOutcome): void | Promise<readonly SummaryRow[]>;
}
