import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ObservedStep, OverflowCase } from './ranks/overflow-in-one-stage.js';
import { prepareCorpus } from './support/prepare-corpus.js';
import { tolerances } from './support/training-runs.js';

const initialScale = 1024;
const recipe = [
  ...['--preset', 'none', '--num-layers', '4', '--hidden-size', '32', '--num-attention-heads', '4'],
  ...['--seq-length', '32', '--max-position-embeddings', '32', '--micro-batch-size', '1'],
  ...['--global-batch-size', '8', '--lr', '5e-3', '--lr-decay-style', 'constant', '--train-iters', '6'],
  ...['--attention-dropout', '0.1', '--hidden-dropout', '0.1', '--clip-grad', '1', '--eval-iters', '0'],
  ...['--split', '90,10,0', '--threads', '1', '--fp16', '--initial-loss-scale', `${initialScale}`],
];
/** The first is forgiven (--hysteresis 2), the second halves the scale. */
const iterations = [2, 4];
const stages = (p: number): string[] => ['--pipeline-model-parallel-size', `${p}`];
const schedule = (name: string): string[] => ['--pipeline-schedule', name];

let corpus: readonly string[];
let directory: string;
let alone: readonly ObservedStep[];

async function observe(worldSize: number, each: Omit<OverflowCase, 'iterations'>): Promise<ObservedStep[][]> {
  const argument: OverflowCase[] = [{ ...each, iterations, flags: [...recipe, ...corpus, ...each.flags] }];
  const ranks = await runInMemoryRanks<ObservedStep[][]>({
    worldSize,
    argument,
    timeoutMs: 60_000,
    ...rankThreads(new URL('./ranks/overflow-in-one-stage.ts', import.meta.url)),
  });
  return ranks.map(([steps]) => steps!);
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-overflow-'));
  corpus = await prepareCorpus(directory);
  [alone] = (await observe(1, { flags: [], stage: 0 })) as [ObservedStep[]];
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('an overflow in one stage of a pipeline', () => {
  it.each<{ worldSize: number; stage: number; flags: readonly string[] }>([
    { worldSize: 2, stage: 0, flags: [...stages(2), ...schedule('1f1b')] },
    { worldSize: 2, stage: 1, flags: [...stages(2), ...schedule('zb-v')] },
    { worldSize: 4, stage: 2, flags: [...stages(4), ...schedule('zb-h2')] },
    // of one tensor-parallel rank alone
    {
      worldSize: 4,
      stage: 1,
      flags: [...stages(2), '--tensor-model-parallel-size', '2', '--sequence-parallel'],
    },
    // of one data-parallel rank, and then of the slice of the one that sums
    {
      worldSize: 4,
      stage: 0,
      flags: [...stages(2), '--use-distributed-optimizer', '--overlap-grad-reduce', '--overlap-param-gather'],
    },
  ])('is one of all: stage $stage, $flags', async ({ worldSize, stage, flags }) => {
    const ranks = await observe(worldSize, { flags, stage });
    for (const steps of ranks) {
      expect(steps.map(({ skipped }) => skipped)).toEqual([false, true, false, true, false, false]);
      expect(steps.map(({ changed }) => changed)).toEqual([true, false, true, false, true, true]);
      const scales = [1, 1, 1, 1, 0.5, 0.5].map((factor) => factor * initialScale);
      expect(steps.map(({ lossScale }) => lossScale)).toEqual(scales);
      // metrics are those of the global batch on every rank
      expect(steps.map(({ loss }) => loss)).toEqual(ranks[0]!.map(({ loss }) => loss));
      // float16 has three bits more than bfloat16, whose bounds between layouts these are
      steps.forEach(({ loss, gradientNorm, skipped }, index) => {
        expect(Math.abs(loss / alone[index]!.loss - 1)).toBeLessThan(tolerances.bf16.loss);
        if (skipped) expect(gradientNorm).toBe(Number.POSITIVE_INFINITY);
        else
          expect(Math.abs(gradientNorm / alone[index]!.gradientNorm - 1)).toBeLessThan(tolerances.bf16.norm);
      });
    }
  });
});
