import { runInMemoryRanks } from '@mtl/comm/testing';
import { setNumThreads } from '@mtl/kernels';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { mergeShards, type PutTogetherOptions } from './merge-shards.js';
import type { ShardedStepOptions, ShardedStepResult } from './ranks/sharded-gpt.js';
import { buildModel, computeStep, evaluateStep, type StepOptions, type StepResult } from './small-gpt.js';

/** Runs steps on in-memory ranks: results[step][rank]. */
export async function runSharded(
  size: number,
  steps: readonly ShardedStepOptions[],
): Promise<ShardedStepResult[][]> {
  const ranks = await runInMemoryRanks<ShardedStepResult[]>({
    worldSize: size,
    ...rankThreads(new URL('./ranks/sharded-gpt.ts', import.meta.url)),
    argument: steps,
    timeoutMs: 60_000,
  });
  return steps.map((_, step) => ranks.map((results) => results[step]!));
}

/** Runs the step in one process. */
export function runWhole(options: StepOptions): StepResult & { readonly evaluated: number } {
  setNumThreads(1);
  const built = buildModel(options);
  const result = { ...computeStep(built, options), evaluated: evaluateStep(built) };
  built.dispose();
  return result;
}

/**
 * Returns how far ranks are from one process: the loss of any rank, and the worst gradient as a share of its
 * norm.
 */
export function distance(
  ranks: readonly StepResult[],
  whole: StepResult,
  options: PutTogetherOptions = {},
): { loss: number; gradient: number } {
  const gradients = mergeShards(
    ranks.map((rank) => rank.gradients),
    options,
  );
  const shares = whole.gradients.map(({ name, values }) => {
    const actual = gradients.get(name)!;
    return Math.hypot(...actual.map((value, index) => value - values[index]!)) / Math.hypot(...values);
  });
  return {
    loss: Math.max(...ranks.map((rank) => Math.abs(rank.loss - whole.loss))),
    gradient: Math.max(...shares),
  };
}
