/**
 * Returns a record of metrics.jsonl with the current names of the losses. Before `total_loss` had its own
 * name, `lm_loss` of a BERT was the total, and `mlm_loss` was the loss of the masked tokens.
 */
export function renamedLosses<Losses extends Readonly<Record<string, unknown>>>(record: Losses): Losses {
  if (!('mlm_loss' in record) || 'total_loss' in record) return record;
  const { lm_loss: total, mlm_loss: masked, ...others } = record;
  return { ...others, lm_loss: masked, total_loss: total } as unknown as Losses;
}
