/** A loss on held-out data. */
export interface ValidationLoss {
  readonly iteration: number;
  /** Mean over the tokens evaluated, in nats; where there are several kinds of loss, their sum. */
  readonly loss: number;
  /**
   * The losses that the sum is made of, by name, such as BERT's `mlm_loss` and `sop_loss`, and auxiliary
   * losses, which are no part of it.
   */
  readonly otherLosses?: Readonly<Record<string, number>>;
  /**
   * The losses that are means over tokens, by name: those with a perplexity. Default: `lm_loss` where it is
   * not a sum of others.
   */
  readonly tokenLosses?: readonly string[];
}

/** The loss of an evaluation, and the step that it followed. */
export type EvaluatedStep = Pick<ValidationLoss, 'iteration' | 'loss'>;
