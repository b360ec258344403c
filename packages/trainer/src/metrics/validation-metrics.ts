import type { ValidationLoss } from './validation-loss.js';

/** A loss on held-out data as reports show it. */
export interface ValidationMetric {
  /** `lm_loss`, or what another loss is called. */
  readonly key: string;
  readonly value: number;
  /** Of a mean over tokens only: of other losses, and of sums, e^loss has no meaning. */
  readonly perplexity: number | undefined;
}

/**
 * What an evaluation found, the loss of the language model first. Perplexities are capped at e^20, as
 * Megatron-LM does.
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
