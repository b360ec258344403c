/**
 * Returns a metrics.jsonl record with the current names of the losses. Old files have no `total_loss`. In
 * BERT's old files, `lm_loss` is the total, and `mlm_loss` is the loss of the masked tokens.
 */
export function renamedLosses<Losses extends Readonly<Record<string, unknown>>>(record: Losses): Losses {
  if (!('mlm_loss' in record) || 'total_loss' in record) return record;
  const { lm_loss: total, mlm_loss: masked, ...others } = record;
  return { ...others, lm_loss: masked, total_loss: total } as unknown as Losses;
}
