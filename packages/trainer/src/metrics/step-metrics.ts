import type { TrainingEvent } from '../training-event.js';

/** What is known about one training step, once it is done. */
export interface StepMetrics {
  /** Number of the step, from 1; counts the whole training, resumed runs included. */
  readonly iteration: number;
  /** Samples consumed up to and including this step. */
  readonly consumedSamples: number;
  /** Tokens consumed up to and including this step. */
  readonly consumedTokens: number;
  /** Samples of this step over all data-parallel ranks. */
  readonly globalBatchSize: number;
  /**
   * Mean loss over the step's tokens, in nats, before any loss scale. Of several losses the one called
   * `lm_loss`, such as that of BERT's masked tokens; their total where none is called so.
   */
  readonly loss: number;
  /** Norm of all gradients before clipping; infinite or NaN when the step was skipped for an overflow. */
  readonly gradNorm: number;
  readonly learningRate: number;
  /** Of the word embedding and the output layer, where they have one of their own. */
  readonly decoupledLearningRate?: number;
  readonly lossScale: number;
  /** Whether the weights were left alone: a gradient overflowed, a guard refused, or it was left out. */
  readonly skipped: boolean;
  /** Whether nothing was computed from the samples: losses and gradient norm are NaN, rates are 0. */
  readonly isLeftOut?: true;
  /** Wall-clock time of the step, in milliseconds; between the ends of two steps where they overlap. */
  readonly stepMs: number;
  readonly tokensPerSecond: number;
  /** Model FLOPs (see `modelFlops`) of the step per second, in 1e12. */
  readonly modelTflops: number;
  /**
   * Most bytes that tensors held at once so far, on the rank with the most; Node.js and its libraries are not
   * counted.
   */
  readonly peakBytes: number;
  /**
   * What a step has of further losses, by their name in metrics.jsonl: such as BERT's `sop_loss`, the
   * `total_loss` that the gradients are of, and auxiliary losses, which are no part of the total.
   */
  readonly otherLosses?: Readonly<Record<string, number>>;
  /** What was of note about the step. */
  readonly events?: readonly TrainingEvent[];
  /** Whether training goes on from the newest checkpoint, with the samples that follow. */
  readonly rollsBack?: boolean;
}
