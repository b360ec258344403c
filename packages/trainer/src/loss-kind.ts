/**
 * A kind of loss. The total is the sum of all kinds, each a mean over what counts of it in the global batch,
 * however that is split.
 */
export interface LossKind<Batch> {
  /**
   * Its name in metrics.jsonl, and of the parts of a stage's loss (`StageLossPart`) where there are several
   * kinds.
   */
  readonly name: string;
  /** Which factor a stage multiplies it with (`LossFactors`). At most one kind of each. */
  readonly per: 'token' | 'sample';
  /** Tokens or samples of a micro-batch that count; the last stage of a pipeline is asked. */
  count(batch: Batch): number;
}
