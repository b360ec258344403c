import { type Flags, parseFlags, validateConfiguration } from '@mtl/configuration';
import { loadProfile } from '@mtl/planner';
import { describe, expect, it } from 'vitest';
import { planRun } from '../plan-run.js';
import { RecordedEstimates } from './recorded-estimates.js';
import { type FoundLayout, searchLayouts } from './search-layouts.js';

const unused: Flags = { lr: 1, 'train-iters': 1000, 'data-path': ['bundled'] };
const model = (layers: number, hidden: number, heads: number, batch: number): string[] => [
  ...['--preset', 'none', '--bf16', '--seq-length', '2048', '--max-position-embeddings', '2048'],
  ...['--tokenizer-type', 'NullTokenizer', '--vocab-size', '51199', '--num-layers', `${layers}`],
  ...['--hidden-size', `${hidden}`, '--num-attention-heads', `${heads}`, '--global-batch-size', `${batch}`],
];
const meshOf = ({ candidate: { tensor, pipeline, data } }: FoundLayout): readonly number[] => [
  tensor,
  pipeline,
  data,
];

describe('searchLayouts', () => {
  // Korthikanti et al. 2022, table 5, and Narayanan et al. 2021, table 1, with predicted seconds of their
  // layouts
  it.each([
    { name: '175 B of 2022', argv: model(96, 12_288, 96, 64), n: 64, mesh: [8, 8, 1], published: 13.57 },
    { name: '530 B of 2022', argv: model(105, 20_480, 128, 280), n: 280, mesh: [8, 35, 1], published: 36.58 },
    { name: '76 B of 2021', argv: model(60, 10_240, 80, 1792), n: 1024, mesh: [8, 4, 32], published: 14.9 },
  ])('has the published layout of $name among the best', async ({ name, argv, n, mesh, published }) => {
    const is2022 = name.endsWith('2022');
    const profile = loadProfile(is2022 ? 'a100-80gb-megatron' : 'a100-80gb-megatron-2021');
    const full = [
      '--recompute-granularity',
      'full',
      '--recompute-method',
      'uniform',
      '--no-sequence-parallel',
    ];
    const flags = is2022 ? argv : [...argv, ...full];
    const { layouts, numCandidates } = await searchLayouts({ argv: flags, unused, numProcesses: n, profile });
    expect(numCandidates).toBeGreaterThan(60);
    expect(layouts.map(meshOf)).toContainEqual(mesh);
    const seconds = layouts.map(({ plan }) => plan.iterationSeconds);
    expect(published / seconds[0]!).toBeLessThan(1.05);
    expect(seconds).toEqual([...seconds].sort((a, b) => a - b));
    for (const { plan, estimatedSeconds } of layouts) {
      expect(plan.fits).toBe(true);
      expect(Math.abs(estimatedSeconds / plan.iterationSeconds - 1)).toBeLessThan(0.01);
    }
  });

  const tiny = [...model(4, 64, 4, 8), '--threads', '1'];

  it('composes recordings, leaves what is given as it is, and plans the best whole', async () => {
    const argv = [...tiny, '--tensor-model-parallel-size', '2', '--micro-batch-size', '2'];
    const profile = loadProfile('h100-80gb');
    const options = {
      argv: [...argv, '--recompute-granularity', 'selective'],
      unused,
      numProcesses: 4,
      profile,
    };
    const { layouts, numCandidates } = await searchLayouts(options);
    // p 1 and d 2, or p 2 and d 1 with 1F1B, its halves, and two chunks; with and without sequence
    // parallelism
    expect(numCandidates).toBe(2 * 2 + 3 * 2);
    expect(layouts.map(meshOf).sort()).toEqual([
      [2, 1, 2],
      [2, 2, 1],
    ]);
    for (const { words, plan, candidate } of layouts) {
      expect(words).not.toContain('--micro-batch-size');
      expect(words.slice(-2)).toEqual(['--device', 'cuda']);
      expect(plan.ranks.flatMap(({ ranks }) => ranks)).toHaveLength(4);
      expect(words.includes('--sequence-parallel')).toBe(candidate.sequenceParallel);
    }
  });

  it('counts a tied embedding once where there is no pipeline', async () => {
    const configuration = validateConfiguration(
      parseFlags([...tiny, '--micro-batch-size', '2', '--device', 'cuda'], { unused }),
    );
    const profile = loadProfile('h100-80gb');
    const estimates = new RecordedEstimates({
      profile,
      numLayers: 4,
      globalBatchSize: 8,
      configure: () => configuration,
    });
    const one = { tensor: 1, pipeline: 1, data: 1, chunks: 1, microBatch: 2, schedule: 'none' } as const;
    const settings = { recomputation: 'none', sequenceParallel: false, distributedOptimizer: false } as const;
    const estimate = await estimates.estimate({ ...one, ...settings });
    const { ranks } = await planRun(configuration, { profile });
    // the embedding is most of this model
    expect(estimate!.memoryBytes / ranks[0]!.memoryBytes).toBeCloseTo(1, 1);
  });

  it('leaves a schedule as it is', async () => {
    const argv = [...tiny, '--pipeline-model-parallel-size', '2', '--micro-batch-size', '2'];
    for (const name of ['h100-80gb', 'a100-80gb-megatron']) {
      const found = await searchLayouts({
        argv: [...argv, '--pipeline-schedule', 'gpipe'],
        unused,
        numProcesses: 2,
        profile: loadProfile(name),
      });
      expect(new Set(found.layouts.map(({ candidate }) => candidate.schedule))).toEqual(new Set(['gpipe']));
    }
  });

  const withoutBatch = tiny.filter((word, at) => ![word, tiny[at - 1]].includes('--global-batch-size'));
  it.each([
    { argv: ['--preset', 'none', '--bf16'], code: 'MTL_FLAG_REQUIRED', message: /--num-layers, .+ missing/ },
    { argv: withoutBatch, code: 'MTL_FLAG_REQUIRED', message: /^--global-batch-size is missing/ },
    {
      argv: [...tiny, '--pipeline-schedule', 'zb-v'],
      code: 'MTL_PLAN_LAYOUT',
      message: /--pipeline-schedule zb-v/,
    },
    {
      argv: [...tiny, '--pipeline-model-parallel-layout', 'Et|ttt'],
      code: 'MTL_PLAN_LAYOUT',
      message: /-layout Et\|ttt/,
    },
    { argv: [...tiny, '--load', '/nonexistent'], code: 'MTL_CHECKPOINT_NONE', message: /nonexistent/ },
    // wrong in every layout
    {
      argv: [...tiny, '--lr-warmup-iters', '2000'],
      code: 'MTL_LEARNING_RATE',
      message: /warm-up takes 2000/,
    },
  ])('refuses flags: $code, $message', async ({ argv, code, message }) => {
    for (const name of ['a100-80gb-megatron', 'h100-80gb']) {
      const options = { argv, unused, numProcesses: 2, profile: loadProfile(name) };
      await expect(searchLayouts(options)).rejects.toMatchObject({
        code,
        message: expect.stringMatching(message),
      });
    }
  });

  it('tells what the least takes where nothing fits, and what has to divide', async () => {
    const profile = loadProfile('a100-80gb-megatron');
    const options = { argv: tiny, unused, numProcesses: 2, profile };
    await expect(searchLayouts({ ...options, memoryBytes: 1 })).rejects.toMatchObject({
      code: 'MTL_PLAN_LAYOUT',
      message: 'no layout of 2 processes fits into 1 B',
    });
    await expect(searchLayouts({ ...options, numProcesses: 7 })).rejects.toMatchObject({
      code: 'MTL_PLAN_LAYOUT',
      message: 'no layout of 7 processes divides the run',
    });
  });
});
