/**
 * Returns a record of metrics.jsonl with the losses by the names of today. Before `total_loss` was a name of
 * its own, `lm_loss` of a BERT was the total, and `mlm_loss` that of the masked tokens.
 */
export function renamedLosses<Losses extends Readonly<Record<string, unknown>>>(record: Losses): Losses {
  if (!('mlm_loss' in record) || 'total_loss' in record) return record;
  const { lm_loss: total, mlm_loss: masked, ...others } = record;
  return { ...others, lm_loss: masked, total_loss: total } as unknown as Losses;
}
