import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseFlags, validateConfiguration } from '@mtl/configuration';
import { findGpu, MatmulCalls, openCuda } from '@mtl/kernels/internal';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dryRunModel } from '../../src/dry-run/dry-run-model.js';
import { dryRunRank, metaRun, TrainingProcesses } from '../../src/index.js';
import { listenerFor, timeMatmulsOfRun } from '../../src/training/time-matmuls-of-run.js';

// an emulated device then only has addresses, and what matmuls depend on
process.env.MTL_EMULATION_IDLE = '1';
process.env.MTL_EMULATION_MATMUL_MS = '3,1,2';
const { problem, title } = findGpu();

const sizes = [
  ...['--preset', 'none', '--num-layers', '2', '--hidden-size', '48', '--num-attention-heads', '4'],
  ...['--seq-length', '64', '--max-position-embeddings', '64', '--micro-batch-size', '2', '--lr', '1e-3'],
  ...['--global-batch-size', '12', '--train-iters', '3', '--tokenizer-type', 'NullTokenizer'],
  ...['--vocab-size', '2000', '--device', 'cuda', '--split', '100,0,0', '--bf16', '--time-matmuls'],
];

async function configured(flags: readonly string[] = [], worldSize = 1) {
  const parsed = parseFlags([...sizes, ...flags], { unused: { 'data-path': ['bundled'] } });
  const configuration = validateConfiguration(parsed, { worldSize });
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
    ['alone', 1, []],
    ['with dropout', 1, ['--hidden-dropout', '0.1', '--attention-dropout', '0.1']],
    ['with CUDA graphs', 1, ['--cuda-graphs']],
    ['tp 2, sequence parallel', 2, ['--tensor-model-parallel-size', '2', '--sequence-parallel']],
    ['dp 2, distributed optimizer', 2, ['--use-distributed-optimizer']],
  ] as const)(
    'a dry run finds the matmuls of the run, with their alignments: %s',
    async (_, worldSize, flags) => {
      const { configuration, model } = await configured(flags, worldSize);
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
    const options = { model, processes, onMessage: (text: string) => void lines.push(text) };
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
    await timeMatmulsOfRun({ ...configuration, parallel }, { model, processes, onMessage, variables });
  });

  it('refuses a rank whose GPU is another one than that of the first rank', async () => {
    const { configuration, model } = await configured();
    const processes = new TrainingProcesses({ world: undefined, parallel: configuration.parallel });
    // what the first rank would say
    processes.agree = <Value>(value: Value): Value => ({ ...value, gpu: 'NVIDIA H200' });
    const refused = timeMatmulsOfRun(configuration, {
      model,
      processes,
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
