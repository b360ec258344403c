import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { configure, type RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { findGpu, openCuda } from '@mtl/kernels/internal';
import { MatmulCalls } from '@mtl/kernels/matmul-choices';
import { TrainingProcesses } from '@mtl/runs';
import { timeMatmulsOfRun } from '@mtl/runs/internal';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dryRunModel } from '../../src/dry-run/dry-run.js';
import { dryRunRank, metaRun } from '../../src/dry-run/dry-run-rank.js';
import { listenerFor } from '../../src/plan/matmuls-of-run.js';
import { planning } from '../../src/planning.js';

// an emulated device then only has addresses, and the properties that determine matmuls
process.env.MTL_EMULATION_IDLE = '1';
process.env.MTL_EMULATION_MATMUL_MS = '3,1,2';
const { problem, title } = findGpu();

const sizes: RunOptions = {
  preset: 'none',
  model: { numLayers: 2, hiddenSize: 48, numAttentionHeads: 4, maxPositionEmbeddings: 64 },
  data: {
    dataPath: ['bundled'],
    sequenceLength: 64,
    tokenizerType: 'NullTokenizer',
    vocabSize: 2000,
    split: '100,0,0',
  },
  training: { microBatchSize: 2, globalBatchSize: 12, trainIterations: 3, bf16: true },
  optimizer: { maxLearningRate: 1e-3 },
  layout: { device: 'cuda', timesMatmuls: true },
};

async function configured(options: RunOptions = {}, worldSize = 1) {
  const configuration = configure(mergeOptions(sizes, options), { worldSize });
  return { configuration, ...(await dryRunModel(configuration)) };
}

describe.skipIf(problem !== undefined)(`--time-matmuls on device cuda (${title})`, () => {
  let cache: string;

  beforeAll(() => {
    cache = mkdtempSync(join(tmpdir(), 'mtl-time-matmuls-'));
    openCuda();
  });
  afterAll(() => rmSync(cache, { recursive: true }));

  it.each([
    ['alone', 1, {}],
    ['with dropout', 1, { model: { hiddenDropout: 0.1, attentionDropout: 0.1 } }],
    ['with CUDA graphs', 1, { layout: { cudaGraphs: true } }],
    ['tp 2, sequence parallel', 2, { layout: { tensorModelParallelSize: 2, sequenceParallel: true } }],
    ['dp 2, distributed optimizer', 2, { layout: { useDistributedOptimizer: true } }],
  ] as const)(
    'a dry run finds the matmuls of the run, with their alignments: %s',
    async (_, worldSize, options) => {
      const { configuration, model } = await configured(options, worldSize);
      const run = metaRun(configuration);
      const callsOn = async (device: 'meta-cuda' | 'cuda'): Promise<readonly unknown[]> => {
        const calls = new MatmulCalls();
        const parallel = { ...run.configuration.parallel, device };
        await dryRunRank(
          { ...run, configuration: { ...run.configuration, parallel } },
          { rank: 0, model, numSteps: 3, listener: listenerFor(calls) },
        );
        return [...calls];
      };
      const found = await callsOn('meta-cuda');
      expect(found).toEqual(await callsOn('cuda'));
      // gradients of weights are written first and added to then
      const accumulating = found.filter((call) => JSON.stringify(call).includes('"accumulate":true'));
      expect(accumulating.length).toBeGreaterThan(0);
    },
  );

  it('says what was chosen, once', async () => {
    const { configuration, model } = await configured();
    const processes = new TrainingProcesses({ world: undefined, parallel: configuration.parallel });
    const lines: string[] = [];
    const options = { model, processes, planning, onMessage: (text: string) => void lines.push(text) };
    for (let run = 0; run < 2; run++)
      await timeMatmulsOfRun(configuration, { ...options, variables: { XDG_CACHE_HOME: cache } });
    expect(lines).toEqual([
      expect.stringMatching(/^algorithms of matmuls: \d+ chosen by time, kept in .*jsonl$/),
      expect.stringMatching(/^algorithms of matmuls: as chosen before, .*jsonl$/),
    ]);
  });

  it('does nothing without the flag', async () => {
    const { configuration, model } = await configured();
    const parallel = { ...configuration.parallel, timesMatmuls: false };
    const processes = new TrainingProcesses({ world: undefined, parallel });
    const onMessage = (text: string): never => {
      throw new Error(text);
    };
    const variables = { XDG_CACHE_HOME: join(cache, 'not-there') };
    await timeMatmulsOfRun(
      { ...configuration, parallel },
      { model, processes, planning, onMessage, variables },
    );
  });

  it('refuses a rank whose GPU differs from the GPU of the first rank', async () => {
    const { configuration, model } = await configured();
    const processes = new TrainingProcesses({ world: undefined, parallel: configuration.parallel });
    // the answer of the first rank
    processes.agree = <Value>(value: Value): Value =>
      `${value}`.replace(/GPU [^,]*/, 'GPU NVIDIA H200') as Value;
    const refused = timeMatmulsOfRun(configuration, {
      model,
      processes,
      planning,
      onMessage: () => {},
      variables: { XDG_CACHE_HOME: join(cache, 'other') },
    });
    await expect(refused).rejects.toMatchObject({
      code: 'MTL_MATMUL_CHOICES',
      expected: expect.stringContaining('NVIDIA H200'),
      remedy: 'leave --time-matmuls out',
    });
  });
});
