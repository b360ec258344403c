import { ConfigurationError } from '@mtl/errors';
import type { StepOptions } from './step-options.js';

/**
 * Refuses sizes that do not divide.
 *
 * @throws ConfigurationError `MTL_PLAN_LAYOUT` with the value, and what has to divide it
 */
export function checkLayout({ model, layout }: Pick<StepOptions, 'model' | 'layout'>): void {
  const { tensorParallelSize: t, pipelineParallelSize: p, dataParallelSize: d, numChunks: v = 1 } = layout;
  const rules: readonly (readonly [what: string, value: number, divisor: number, parts: string])[] = [
    ['attention heads', model.numHeads, t, 'tensor-parallel ranks'],
    ['hidden size', model.hiddenSize, model.numHeads, 'attention heads'],
    ['query groups', model.numQueryGroups ?? model.numHeads, t, 'tensor-parallel ranks'],
    ['feed-forward size', model.ffnHiddenSize ?? 4 * model.hiddenSize, t, 'tensor-parallel ranks'],
    ['vocabulary', model.vocabularySize, t, 'tensor-parallel ranks'],
    ['layers', model.numLayers, p * v, 'chunks of the pipeline'],
    [
      'global batch',
      layout.globalBatchSize,
      layout.microBatchSize * d,
      'samples of a micro-batch on all pipelines',
    ],
  ];
  for (const [what, value, divisor, parts] of rules) {
    if (
      Number.isInteger(value) &&
      Number.isInteger(divisor) &&
      divisor > 0 &&
      value % divisor === 0 &&
      value > 0
    )
      continue;
    const near = Math.max(1, Math.round(value / divisor)) * divisor;
    throw new ConfigurationError(
      'MTL_PLAN_LAYOUT',
      `${what} ${value} cannot be split over ${divisor} ${parts}`,
      {
        expected: `a multiple of ${divisor}, such as ${near}`,
      },
    );
  }
}
