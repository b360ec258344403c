import { type ModelKind, parseFlags, validateConfiguration } from '@mtl/configuration';
import { findGpu, openCuda } from '@mtl/kernels/internal';
import { beforeAll, describe, expect, it } from 'vitest';
import { dryRunModel } from '../../src/dry-run/dry-run-model.js';
import { dryRunRank, metaRun } from '../../src/index.js';

// an emulated device then keeps account of memory alone: the sizes can be larger
process.env.MTL_EMULATION_IDLE = '1';
const { problem, title } = findGpu();

const sizes = [
  ...['--preset', 'none', '--num-layers', '4', '--hidden-size', '64', '--num-attention-heads', '4'],
  ...['--seq-length', '64', '--max-position-embeddings', '64', '--micro-batch-size', '2', '--lr', '1e-3'],
  ...['--global-batch-size', '12', '--train-iters', '3', '--tokenizer-type', 'NullTokenizer'],
  ...['--vocab-size', '2000', '--device', 'cuda', '--split', '100,0,0'],
];
const recompute = ['--recompute-granularity', 'full', '--recompute-method', 'uniform'];
const tensor = ['--tensor-model-parallel-size', '2'];

interface Case {
  readonly name: string;
  readonly model?: ModelKind;
  readonly worldSize?: number;
  readonly flags: readonly string[];
}

const cases: readonly Case[] = [
  { name: 'GPT', flags: [] },
  { name: 'GPT, bf16, recomputed', flags: ['--bf16', ...recompute] },
  { name: 'GPT, CUDA graphs', flags: ['--cuda-graphs', '--bf16'] },
  {
    name: 'GPT, dp 2, distributed optimizer',
    worldSize: 2,
    flags: ['--use-distributed-optimizer', '--bf16'],
  },
  { name: 'GPT, tp 2', worldSize: 2, flags: tensor },
  { name: 'GPT, tp 2, sequence parallel', worldSize: 2, flags: [...tensor, '--sequence-parallel', '--bf16'] },
  { name: 'BERT', model: 'bert', flags: ['--bf16'] },
  { name: 'BERT, tp 2', model: 'bert', worldSize: 2, flags: tensor },
];

describe.skipIf(problem !== undefined)(`the memory of a training run on device cuda (${title})`, () => {
  beforeAll(() => void openCuda());

  it.each(cases)(
    'is what device meta-cuda counts: $name',
    async ({ model = 'gpt', worldSize = 1, flags }) => {
      const unused = { 'data-path': ['bundled'] };
      const parsed = parseFlags([...sizes, ...flags], { model, unused });
      const configuration = validateConfiguration(parsed, { worldSize });
      const options = { rank: 0, numSteps: 3, ...(await dryRunModel(configuration)) };
      const run = metaRun(configuration);
      expect(run.configuration.parallel.device).toBe('meta-cuda');
      const counted = await dryRunRank(run, options);
      // the same rank with values: other ranks are played as on device meta-cuda
      const parallel = { ...run.configuration.parallel, device: 'cuda' as const };
      const measured = await dryRunRank(
        { ...run, configuration: { ...run.configuration, parallel } },
        options,
      );
      expect(counted.peakBytes).toBe(measured.peakBytes);
      expect(counted.memoryByKind).toEqual(measured.memoryByKind);
      expect(counted.sentBytes).toEqual(measured.sentBytes);
    },
  );
});
