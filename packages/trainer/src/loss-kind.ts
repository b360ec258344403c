/**
 * A kind of loss. The total is the sum of all kinds, each its weight times a mean over what counts of it in
 * the global batch, however that is split. Any stage of a pipeline may make it, and several may.
 */
export interface LossKind<Batch> {
  /**
   * Its name in metrics.jsonl, and that of the losses of stages (`StageLoss`). The one called `lm_loss` is
   * the loss of the language model, which reports lead with.
   */
  readonly name: string;
  /** What it is a mean over, in the singular: `token`, `sample`, `sentence`. */
  readonly per: string;
  /** How many of them count in a micro-batch; the last stage of a pipeline is asked. */
  count(batch: Batch): number;
  /** Its weight in the sum. Default 1. Metrics report the mean without it. */
  readonly weight?: number | undefined;
  /**
   * Whether it only adds gradients, such as the balance of a router: it is reported by its name, and is not
   * part of the reported total. Layers make it of whole sequences, so that ranks that share a sequence have
   * the same; of another loss each has the part of its positions. Default: false.
   */
  readonly isAuxiliary?: boolean | undefined;
}
