import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { glooProblem } from '@mtl/comm';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { type ChromeTrace, readTrace } from '@mtl/pipeline/schedules';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { preparedCorpus } from './support/prepared-corpus.js';
import { processTestMs, runProcesses } from './support/run-processes.js';

/** Offset of rank 1's monotonic clock, as if its host was started earlier. */
const aheadSeconds = 1000;
const shifted = ['unshare', '--time', '--monotonic', `${aheadSeconds}`, '--fork'];
/**
 * Offsets are known to within half of the fastest of 16 round trips on the loopback, well under a
 * millisecond. A tenth of a second allows for a busy machine, and is a ten thousandth of the difference
 * between the clocks.
 */
const toleranceMs = 100;
const options: RunOptions = {
  preset: 'none',
  model: { numLayers: 2, hiddenSize: 32, numAttentionHeads: 4, maxPositionEmbeddings: 32 },
  data: { sequenceLength: 32, split: '90,10,0' },
  training: { microBatchSize: 1, globalBatchSize: 4, trainIterations: 3, evalIterations: 0 },
  optimizer: { maxLearningRate: 1e-3, learningRateDecayStyle: 'constant' },
  layout: { threads: 1, pipelineModelParallelSize: 2 },
  logging: { profileSteps: [2, 3] },
};
const cannot =
  glooProblem() !== undefined || spawnSync(shifted[0]!, [...shifted.slice(1), 'true']).status !== 0;

describe.skipIf(cannot)(
  'a trace of two hosts whose clocks differ (libgloo-dev, time namespaces, root)',
  () => {
    let directory: string;
    beforeAll(() => {
      directory = mkdtempSync(join(tmpdir(), 'mtl-clocks-'));
    });
    afterAll(() => rmSync(directory, { recursive: true, force: true }));

    it(
      'has no pass before the one that it needs',
      async () => {
        const file = join(directory, 'trace.json');
        const corpus = await preparedCorpus(directory);
        await runProcesses({
          worldSize: 2,
          engine: 'gloo',
          module: new URL('./ranks/train-gpt.ts', import.meta.url),
          argument: [{ options: mergeOptions(options, corpus, { logging: { profileFile: file } }) }],
          choosePrefix: (rank) => (rank === 1 ? shifted : []),
        });
        const text = readFileSync(file, 'utf8');
        const { otherData } = JSON.parse(text) as ChromeTrace & {
          otherData: { ranks: { clockOffsetNs: number }[] };
        };
        const [own, other] = otherData.ranks.map(({ clockOffsetNs }) => clockOffsetNs / 1e6);
        expect(own).toBe(0);
        expect(Math.abs(other! + aheadSeconds * 1000)).toBeLessThan(toleranceMs);
        const [pipeline] = readTrace(text, { name: file });
        expect(pipeline!.steps.length).toBe(2);
        for (const { ranks } of pipeline!.steps) {
          const pass = (rank: number, kind: string, microBatch: number) =>
            ranks[rank]!.passes.find(
              ({ action }) => action.kind === kind && action.microBatch === microBatch,
            )!;
          for (let microBatch = 0; microBatch < 4; microBatch++) {
            // the forward pass bounds the second clock from below, the next pass from above
            const [forward, next] = [pass(0, 'F', microBatch), pass(1, 'F', microBatch)];
            expect(next.start).toBeGreaterThan(forward.end - toleranceMs);
            const [backward, before] = [pass(1, 'B', microBatch), pass(0, 'B', microBatch)];
            expect(before.start).toBeGreaterThan(backward.end - toleranceMs);
          }
        }
      },
      processTestMs,
    );
  },
);
