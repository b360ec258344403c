import type { World } from '@mtl/comm';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { beforeAll, describe, expect, it } from 'vitest';
import trainWeights, { type TrainWeightsArgument, type TrainWeightsResult } from './ranks/train-weights.js';

const run = (argument: TrainWeightsArgument): Promise<TrainWeightsResult[]> =>
  runInMemoryRanks<TrainWeightsResult>({
    worldSize: argument.pp * argument.dp,
    ...rankThreads(new URL('./ranks/train-weights.ts', import.meta.url)),
    argument,
    timeoutMs: 30_000,
  });

/** Trains in this thread: one process needs no communication, and no other thread. */
const runAlone = (argument: Omit<TrainWeightsArgument, 'pp' | 'dp'>): Promise<TrainWeightsResult> =>
  trainWeights({ rank: 0 } as World, { pp: 1, dp: 1, ...argument });

const own = { ownLoss: 'own_loss', weight: 0.25, lossScale: 8 };

describe('a loss of stages in the middle', () => {
  let alone: TrainWeightsResult;
  beforeAll(async () => {
    alone = await runAlone(own);
  });

  it('is reported by its name without its weight, and is no part of the total', () => {
    // weights are 1: y is x in every stage
    const numbers = Array.from({ length: 8 }, (_, sample) =>
      Array.from({ length: 2 + (sample % 2) }, (_, index) => 2 + ((sample * 5 + index * 3) % 7) / 8),
    ).flat();
    const mean = (of: (value: number) => number): number =>
      numbers.reduce((sum, value) => sum + of(value), 0) / numbers.length;
    const expected = { lm_loss: mean((x) => (x - 1) ** 2 / 2), own_loss: mean((x) => x ** 2 / 2) };
    const { steps, evaluated } = alone;
    // float32 losses
    expect(Math.abs(steps[0]!.loss - expected.lm_loss)).toBeLessThan(1e-6);
    expect(Math.abs(steps[0]!.otherLosses!.own_loss! - expected.own_loss)).toBeLessThan(1e-6);
    expect(Object.keys(steps[0]!.otherLosses!)).toEqual(['own_loss']);
    expect(Math.abs(evaluated.loss - expected.lm_loss)).toBeLessThan(1e-6);
    expect(Math.abs(evaluated.otherLosses!.own_loss! - expected.own_loss)).toBeLessThan(1e-6);
    expect(evaluated.tokenLosses).toEqual(['lm_loss']);
  });

  it('adds gradients by its weight', async () => {
    const without = await runAlone({ lossScale: 8 });
    expect(without.steps[0]!.loss).toBe(alone.steps[0]!.loss);
    expect(without.steps[0]!.otherLosses).toBeUndefined();
    expect(without.evaluated.tokenLosses).toBeUndefined();
    const heavier = await runAlone({ ...own, weight: 0.5 });
    const norms = [without, alone, heavier].map(({ steps }) => steps[0]!.gradNorm);
    expect(norms[1]).toBeGreaterThan(norms[0]! + 0.1);
    expect(norms[2]).toBeGreaterThan(norms[1]! + 0.1);
  });

  it.each([
    [2, 1],
    [2, 2],
  ])('is the sum over micro-batches, stages and replicas: %i stages, %i replicas', async (pp, dp) => {
    for (const { steps, evaluated } of await run({ pp, dp, ...own })) {
      expect(evaluated).toEqual(alone.evaluated);
      // the same numbers, summed over ranks in another order: float32
      steps.forEach(({ loss, otherLosses, gradNorm }, step) => {
        const expected = alone.steps[step]!;
        expect(Math.abs(loss / expected.loss - 1)).toBeLessThan(2e-6);
        expect(Math.abs(otherLosses!.own_loss! / expected.otherLosses!.own_loss! - 1)).toBeLessThan(2e-6);
        expect(Math.abs(gradNorm / expected.gradNorm - 1)).toBeLessThan(2e-5);
      });
    }
  });

  it('takes two collectives of a step, next to the collectives of gradients and their norm', async () => {
    for (const { collectives } of await run({ pp: 2, dp: 2, ...own }))
      expect(collectives).toEqual({ world: 2 + 1, dp: 1, pp: 0 });
  });

  it.each([
    ['a loss that the run does not have', { ownLoss: 'other_loss' }, 'a stage makes the loss other_loss'],
    ['a loss that no stage makes', { ownLoss: undefined }, 'no stage makes own_loss'],
    ['a weight that does not count', { weight: 0 }, 'the loss own_loss has the weight 0'],
  ])('is refused: %s', async (_, change, message) => {
    await expect(runAlone({ ...own, ...change } as TrainWeightsArgument)).rejects.toThrow(message);
  });
});
