import type { IntervalMetrics } from './interval-metrics.js';
import type { ValidationLoss } from './validation-loss.js';
import { validationMetrics } from './validation-metrics.js';

/**
 * A line of at most 80 columns for a reader, where no script reads Megatron-LM's:
 * `iteration 50/1000 | lm loss 6.7371 | grad norm 0.900 | 137 ms | 14,895 tokens/s`.
 */
export function formatShortStepLine(metrics: IntervalMetrics): string {
  const { iteration, trainIterations, losses, gradNorm, stepMs, tokensPerSecond, numSkipped } = metrics;
  const width = String(trainIterations).length;
  return [
    `iteration ${String(iteration).padStart(width)}/${trainIterations}`,
    ...Object.entries(losses).map(([name, loss]) => `${name} ${loss.toFixed(4)}`),
    `grad norm ${gradNorm.toFixed(3)}`,
    `${Math.round(stepMs).toLocaleString('en-US')} ms`,
    `${Math.round(tokensPerSecond).toLocaleString('en-US')} tokens/s`,
    ...(numSkipped > 0 ? [`${numSkipped} skipped`] : []),
  ].join(' | ');
}

/**
 * `validation at iteration 100 | lm loss 5.2311 | perplexity 187.00`, each loss with its perplexity if it has
 * one.
 */
export function formatShortValidationLine(result: ValidationLoss): string {
  const parts = validationMetrics(result).flatMap(({ key, value, perplexity }) => [
    `${key.replaceAll('_', ' ')} ${value.toFixed(4)}`,
    ...(perplexity === undefined ? [] : [`perplexity ${perplexity.toFixed(2)}`]),
  ]);
  return [`validation at iteration ${result.iteration}`, ...parts].join(' | ');
}
