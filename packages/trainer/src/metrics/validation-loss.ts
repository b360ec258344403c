/** A loss on held-out data. */
export interface ValidationLoss {
  readonly iteration: number;
  /**
   * Mean over the tokens evaluated, in nats. Of several losses the one called `lm_loss`; their total where
   * none is called so. Early stopping and the best evaluation of a run go by it.
   */
  readonly loss: number;
  /**
   * Further losses by name, such as BERT's `sop_loss`, the `total_loss`, and auxiliary losses, which are no
   * part of the total.
   */
  readonly otherLosses?: Readonly<Record<string, number>>;
  /**
   * The losses that are means over tokens, by name: those with a perplexity. Default: `lm_loss` where there
   * is no other.
   */
  readonly tokenLosses?: readonly string[];
}

/** The loss of an evaluation, and the step that it followed. */
export type EvaluatedStep = Pick<ValidationLoss, 'iteration' | 'loss'>;
