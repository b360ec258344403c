import type { ValidationLoss } from './validation-loss.js';

/** A loss on held-out data as reports show it. */
export interface ValidationFigure {
  /** `lm_loss`, or what another loss is called. */
  readonly key: string;
  readonly value: number;
  /** Of a mean over tokens only: of other losses, and of sums, e^loss says nothing. */
  readonly perplexity: number | undefined;
}

/** What an evaluation found, the whole loss first. Perplexities are capped at e^20, as Megatron-LM does. */
export function validationFigures({
  loss,
  otherLosses = {},
  tokenLosses,
}: ValidationLoss): readonly [ValidationFigure, ...ValidationFigure[]] {
  const isWhole = Object.keys(otherLosses).length === 0;
  const named = new Set(tokenLosses ?? (isWhole ? ['lm_loss'] : []));
  const figure = (key: string, value: number): ValidationFigure => ({
    key,
    value,
    perplexity: named.has(key) ? Math.exp(Math.min(20, value)) : undefined,
  });
  return [figure('lm_loss', loss), ...Object.entries(otherLosses).map(([key, value]) => figure(key, value))];
}
