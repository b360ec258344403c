import { fileURLToPath } from 'node:url';
import { configure, flagsOfOptions, type RunOptions, validateConfiguration } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { loadProfile } from '@mtl/cost-model';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { describe, expect, it } from 'vitest';
import { gptOptions, papers, searchPaper } from '../../../test/support/paper-searches.js';
import { planRun, wholeMemory } from '../plan-run.js';
import type { LayoutCandidate } from './layout-candidates.js';
import { RecordedEstimates } from './recorded-estimates.js';
import { type FoundLayout, type SearchProgress, searchLayouts } from './search-layouts.js';

const readMesh = ({ candidate: { tensor, pipeline, data } }: FoundLayout): readonly number[] => [
  tensor,
  pipeline,
  data,
];

describe('searchLayouts', () => {
  it.each(['175 B of 2022', '76.1 B of 2021', ...inWholeRuns('530 B of 2022')])(
    'has the published layout of %s among the best',
    async (wanted) => {
      const model = papers.find(({ name }) => name === wanted)!;
      const { layouts, numCandidates, place, distance } = await searchPaper(model);
      expect(numCandidates).toBeGreaterThan(40);
      expect(place).toBeGreaterThan(0);
      expect(distance).toBeLessThan(0.05);
      const seconds = layouts.map(({ plan }) => plan.iterationSeconds);
      expect(seconds).toEqual([...seconds].sort((a, b) => a - b));
      for (const { plan, estimatedSeconds, estimatedBytes } of layouts) {
        expect(plan.fits).toBe(true);
        expect(Math.abs(estimatedSeconds / plan.iterationSeconds - 1)).toBeLessThan(0.01);
        expect(estimatedBytes).toBe(Math.max(...plan.ranks.map(({ memoryBytes }) => memoryBytes)));
      }
    },
  );

  it.each(['18.4 B of 2021', '39.1 B of 2021'])(
    'has it also for %s with the published micro-batch and chunks',
    async (wanted) => {
      const model = papers.find(({ name }) => name === wanted)!;
      const { place, distance } = await searchPaper(model, 'micro-batch and chunks');
      expect(place).toBeGreaterThan(0);
      expect(distance).toBeLessThan(0.05);
    },
  );

  const findBest = async (options: RunOptions): Promise<LayoutCandidate> => {
    const profile = loadProfile('a100-80gb-megatron-2021');
    const { layouts } = await searchLayouts({ flags: flagsOfOptions(options), numProcesses: 64, profile });
    return layouts[0]!.candidate;
  };

  it('says how far it is: all candidates estimated, then some planned whole', async () => {
    const told: SearchProgress[] = [];
    const profile = loadProfile('a100-80gb-megatron-2021');
    const { numCandidates, layouts } = await searchLayouts({
      flags: flagsOfOptions(gptOptions(8, 1024, 8, 16)),
      numProcesses: 8,
      profile,
      onProgress: (progress) => told.push(progress),
    });
    const atFirst = { numCandidates, numPlanned: 0, numFound: 0, numWanted: 5 };
    expect(told[0]).toEqual({ numEstimated: 0, ...atFirst });
    expect(told).toContainEqual({ numEstimated: numCandidates - 1, ...atFirst });
    expect(told.at(-1)!.numFound).toBe(layouts.length - 1);
    expect(told.at(-1)!.numEstimated).toBe(numCandidates);
    expect(told.at(-1)!.numPlanned).toBeGreaterThanOrEqual(layouts.length - 1);
  });

  const full: RunOptions = { training: { recomputeGranularity: 'full' } };

  // the recommendations of Narayanan et al. 2021, sections 3.2 to 3.4, for the models of figures 13, 14 and
  // 16
  it('divides 162 B by tensor parallelism within a node, then by a pipeline (takeaway 1)', async () => {
    for (const batch of [32, 128]) {
      const best = await findBest(
        mergeOptions(gptOptions(32, 20_480, 128, batch), full, {
          layout: { pipelineSchedule: '1f1b' },
          training: { microBatchSize: 1 },
        }),
      );
      expect(best).toMatchObject({ tensor: 8, pipeline: 8, data: 1 });
    }
  });

  it('divides 5.9 B no further than it has to, and the batch as far as it can (takeaway 2)', async () => {
    const best = await findBest(mergeOptions(gptOptions(32, 3840, 32, 512), full));
    expect(best.tensor * best.pipeline).toBe(2);
    expect(best.data).toBe(32);
  });

  it('chooses the micro-batch by batch and layout: 2 for 91 B (takeaway 3)', async () => {
    const layout = { tensorModelParallelSize: 8, pipelineModelParallelSize: 8, pipelineSchedule: '1f1b' };
    for (const batch of [128, 512]) {
      const options = mergeOptions(gptOptions(32, 15_360, 128, batch), full, { layout });
      expect((await findBest(options)).microBatch).toBe(2);
    }
  });

  it('offers what the program of the profile has', async () => {
    const flags = flagsOfOptions(gptOptions(48, 6144, 64, 64));
    const search = async (name: string) =>
      (await searchLayouts({ flags, numProcesses: 8, profile: loadProfile(name), memoryBytes: 1e13 }))
        .numCandidates;
    const of2021 = await search('a100-80gb-megatron-2021');
    const of2022 = await search('a100-80gb-megatron');
    const withoutInterleaving = await search('a100-80gb-deepspeed');
    const withoutPipeline = await search('v100-32gb-megatron');
    expect(of2022).toBeGreaterThan(2 * of2021);
    expect(withoutInterleaving).toBeLessThan(of2021);
    // tensor-parallel sizes 1, 2, 4 and 8, with the micro-batch sizes that divide 64 / d, with and without
    // recomputation
    expect(withoutPipeline).toBe(2 * (4 + 5 + 6 + 7));
  });

  const tiny = mergeOptions(gptOptions(4, 64, 4, 8), { layout: { threads: 1 } });

  it('composes recordings, leaves what is given as it is, and plans the best whole', async () => {
    const flags = flagsOfOptions(
      mergeOptions(tiny, {
        layout: { tensorModelParallelSize: 2 },
        training: { microBatchSize: 2, recomputeGranularity: 'selective' },
      }),
    );
    const profile = loadProfile('h100-80gb');
    const { layouts, numCandidates } = await searchLayouts({ flags, numProcesses: 4, profile });
    // the candidates have one stage with two replicas and four stores, or two stages with 1F1B, with a split
    // backward pass, or with two chunks; each exists with and without sequence parallelism
    expect(numCandidates).toBe(4 * 2 + 3 * 2);
    expect(layouts.map(readMesh).sort()).toEqual([
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

  it('divides sequences that are too long for one process, and short ones never', async () => {
    const found = async (seqLength: number) => {
      const options = mergeOptions(gptOptions(8, 1024, 8, 8), {
        data: { sequenceLength: seqLength },
        model: { maxPositionEmbeddings: seqLength, positionEmbeddingType: 'rope' },
        layout: { tensorModelParallelSize: 1, pipelineModelParallelSize: 1 },
        training: { microBatchSize: 1, recomputeGranularity: 'selective', bf16: true },
      });
      const profile = loadProfile('h100-80gb');
      return searchLayouts({ flags: flagsOfOptions(options), numProcesses: 8, profile });
    };
    const listContexts = ({ layouts }: { readonly layouts: readonly FoundLayout[] }) =>
      layouts.map(({ candidate: { context = 1 } }) => context);
    expect(new Set(listContexts(await found(2048)))).toEqual(new Set([1]));
    const long = await found(1_048_576);
    expect(Math.min(...listContexts(long))).toBeGreaterThan(1);
    for (const { plan, words, estimatedSeconds, estimatedBytes } of long.layouts) {
      expect(words).toContain('--context-parallel-size');
      expect(plan.breakdown.contextCommunication).toBeGreaterThanOrEqual(0);
      const bytes = Math.max(...plan.ranks.map(({ memoryBytes }) => memoryBytes));
      expect(Math.abs(estimatedSeconds / plan.iterationSeconds - 1)).toBeLessThan(0.01);
      expect(Math.abs(estimatedBytes / bytes - 1)).toBeLessThan(0.005);
    }
  });

  it('counts a tied embedding once where there is no pipeline', async () => {
    const configuration = configure(
      mergeOptions(tiny, { training: { microBatchSize: 2 }, layout: { device: 'cuda' } }),
    );
    const profile = loadProfile('h100-80gb');
    const estimates = new RecordedEstimates({
      profile,
      numLayers: 4,
      globalBatchSize: 8,
      configure: () => configuration,
    });
    const one = { tensor: 1, pipeline: 1, data: 1, chunks: 1, microBatch: 2, schedule: 'none' } as const;
    const settings = {
      recomputation: 'none',
      sequenceParallel: false,
      dataParallelShardingStrategy: 'no_shard',
      overlapGradReduce: false,
      overlapParamGather: false,
    } as const;
    const estimate = await estimates.estimate({ ...one, ...settings });
    const { ranks } = await planRun(configuration, { profile });
    // the embedding dominates in this model, so the estimate is less precise
    expect(estimate!.memoryBytes / ranks[0]!.memoryBytes).toBeCloseTo(1, 1);
  });

  it('leaves a schedule as it is', async () => {
    const flags = flagsOfOptions(
      mergeOptions(tiny, {
        layout: { pipelineModelParallelSize: 2, pipelineSchedule: 'gpipe' },
        training: { microBatchSize: 2 },
      }),
    );
    for (const name of ['h100-80gb', 'a100-80gb-megatron']) {
      const found = await searchLayouts({
        flags,
        numProcesses: 2,
        profile: loadProfile(name),
      });
      expect(new Set(found.layouts.map(({ candidate }) => candidate.schedule))).toEqual(new Set(['gpipe']));
    }
  });

  it('estimates what a whole plan predicts: time within 1 %, memory within 0.5 %', async () => {
    const profile = loadProfile('h100-80gb');
    for (const layout of [
      { pipelineSchedule: '1f1b', tensorModelParallelSize: 2, pipelineModelParallelSize: 2 },
      { pipelineSchedule: 'zb-h1', pipelineModelParallelSize: 4 },
      {
        pipelineSchedule: 'interleaved',
        pipelineModelParallelSize: 4,
        numVirtualStagesPerPipelineRank: 2,
      },
    ]) {
      const options = mergeOptions(gptOptions(8, 1024, 16, 32), {
        training: { microBatchSize: 1, recomputeGranularity: 'selective' },
        layout: { ...layout, useDistributedOptimizer: true },
      });
      const flags = flagsOfOptions(options);
      const { layouts } = await searchLayouts({ flags, numProcesses: 8, profile, numBest: 2 });
      for (const { plan, estimatedSeconds, estimatedBytes } of layouts) {
        const bytes = Math.max(...plan.ranks.map(({ memoryBytes }) => memoryBytes));
        expect(Math.abs(estimatedSeconds / plan.iterationSeconds - 1)).toBeLessThan(0.01);
        expect(Math.abs(estimatedBytes / bytes - 1)).toBeLessThan(0.005);
      }
    }
  });

  it('estimates layers with a window apart: what a whole plan predicts, and less than without', async () => {
    const profile = loadProfile('h100-80gb');
    const estimated = async (model: RunOptions['model']): Promise<number> => {
      const options = mergeOptions(gptOptions(8, 1024, 16, 32), {
        model: { maxPositionEmbeddings: 8192, ...model },
        data: { sequenceLength: 8192 },
        training: { microBatchSize: 1 },
        layout: { pipelineSchedule: '1f1b', tensorModelParallelSize: 2, pipelineModelParallelSize: 2 },
      });
      const { layouts } = await searchLayouts({
        flags: flagsOfOptions(options),
        numProcesses: 8,
        profile,
        numBest: 1,
      });
      const [{ plan, estimatedSeconds }] = layouts as [FoundLayout];
      expect(Math.abs(estimatedSeconds / plan.iterationSeconds - 1)).toBeLessThan(0.01);
      return estimatedSeconds;
    };
    // the layers without a window are on the first stage, which therefore limits the speed
    const some = await estimated({ windowSize: '127,0', windowAttnSkipFreq: '[0]*3+[1]*5' });
    const [all, none] = [await estimated({ windowSize: '127,0' }), await estimated({})];
    expect(some).toBeLessThan(0.95 * none);
    expect(all).toBeLessThan(some);
  });

  /** A model with experts in half of its layers. Most of its parameters belong to the experts. */
  const experts: RunOptions = {
    model: {
      swiglu: true,
      disableBiasLinear: true,
      numExperts: 8,
      moeRouterTopk: 2,
      moeFfnHiddenSize: 1024,
      moeLayerFreq: '([0]*4+[1]*4)',
    },
  };

  it('estimates layers with experts and dense ones apart, and gradients by who reduces them', async () => {
    const profile = loadProfile('h100-80gb');
    const spread: RunOptions['layout'][] = [
      { tensorModelParallelSize: 2, pipelineModelParallelSize: 2, expertModelParallelSize: 2 },
      { pipelineModelParallelSize: 2, expertModelParallelSize: 1, expertTensorParallelSize: 1 },
      // expert layouts without a pipeline are also covered by the search below
      ...inWholeRuns({
        tensorModelParallelSize: 1,
        pipelineModelParallelSize: 1,
        expertModelParallelSize: 4,
      }),
    ];
    for (const layout of spread) {
      const options = mergeOptions(gptOptions(8, 512, 8, 32), experts, {
        training: { microBatchSize: 1, recomputeGranularity: 'selective' },
        layout: { ...layout, useDistributedOptimizer: true, sequenceParallel: true },
      });
      const flags = flagsOfOptions(options);
      const { layouts } = await searchLayouts({ flags, numProcesses: 8, profile, numBest: 2 });
      for (const { plan, estimatedSeconds, estimatedBytes } of layouts) {
        const bytes = Math.max(...plan.ranks.map(({ memoryBytes }) => memoryBytes));
        // if a stage has two kinds of layers, the composed estimate is rounded once more
        expect(Math.abs(estimatedSeconds / plan.iterationSeconds - 1)).toBeLessThan(0.02);
        expect(Math.abs(estimatedBytes / bytes - 1)).toBeLessThan(0.01);
      }
    }
  });

  it('estimates adapters of experts alone, which layers of the other kind do not have', async () => {
    // a model in which two of three layers have experts
    const base = new URL('../../../../formats/fixtures/huggingface-qwen3-moe', import.meta.url);
    const options: RunOptions = {
      checkpoint: { loadHuggingFace: fileURLToPath(base) },
      lora: { rank: 8, targets: ['experts.gate_up_proj', 'experts.down_proj'] },
      data: { dataPath: ['unused'], sequenceLength: 16, tokenizerType: 'NullTokenizer', vocabSize: 32 },
      training: { microBatchSize: 1, globalBatchSize: 8, trainIterations: 1 },
      optimizer: { maxLearningRate: 1e-3 },
      layout: { tensorModelParallelSize: 1, pipelineModelParallelSize: 1, expertModelParallelSize: 1 },
    };
    const profile = loadProfile('h100-80gb');
    const found = await searchLayouts({
      flags: flagsOfOptions(options),
      numProcesses: 8,
      profile,
      numBest: 1,
    });
    const [{ plan, estimatedSeconds, estimatedBytes }] = found.layouts as [FoundLayout];
    const bytes = Math.max(...plan.ranks.map(({ memoryBytes }) => memoryBytes));
    // the estimate of dense layers includes an adapter that these layers do not have, which matters for such
    // a small model
    expect(Math.abs(estimatedSeconds / plan.iterationSeconds - 1)).toBeLessThan(0.1);
    expect(Math.abs(estimatedBytes / bytes - 1)).toBeLessThan(0.1);
  });

  it('chooses over how many processes experts are spread, exact in memory', async () => {
    const options = mergeOptions(gptOptions(8, 512, 8, 32), experts, {
      training: { microBatchSize: 1, recomputeGranularity: 'selective' },
      layout: { tensorModelParallelSize: 1, pipelineModelParallelSize: 1, useDistributedOptimizer: false },
    });
    const flags = flagsOfOptions(options);
    const profile = loadProfile('h100-80gb');
    const free = await searchLayouts({ flags, numProcesses: 8, profile });
    // expert-parallel sizes 1, 2, 4 and 8 for 8 processes
    expect(free.numCandidates).toBe(4);
    const [{ candidate }] = free.layouts as [(typeof free.layouts)[number]];
    const countBytes = async (size: number): Promise<number> => {
      const own = flagsOfOptions(
        mergeOptions(options, { layout: { device: 'cuda', expertModelParallelSize: size } }),
      );
      const plan = await planRun(validateConfiguration(own, { worldSize: 8 }), { profile });
      return Math.max(...plan.ranks.map(wholeMemory));
    };
    // enough memory for at most two of a layer's eight experts
    const memoryBytes = await countBytes(4);
    expect(await countBytes(2)).toBeGreaterThan(memoryBytes * 1.05);
    const narrow = await searchLayouts({ flags, numProcesses: 8, profile, memoryBytes });
    for (const { words, candidate: found, plan } of narrow.layouts) {
      expect(found.expert).toBeGreaterThanOrEqual(4);
      expect(words.join(' ')).toContain(`--expert-model-parallel-size ${found.expert}`);
      expect(Math.max(...plan.ranks.map(wholeMemory))).toBe(await countBytes(found.expert!));
      expect(plan.breakdown.expertCommunication).toBeGreaterThan(0);
    }
    expect(candidate.expertTensor).toBe(1);
  });

  it('refuses lists of other programs, which have no experts', async () => {
    const options = mergeOptions(gptOptions(8, 512, 8, 32), experts, { training: { bf16: true } });
    const flags = flagsOfOptions(options);
    const profile = loadProfile('a100-80gb-megatron');
    await expect(searchLayouts({ flags, numProcesses: 8, profile })).rejects.toMatchObject({
      code: 'MTL_PROFILE',
      message: expect.stringMatching(/a model of 8 experts is planned/),
    });
  });

  it('goes on to smaller layouts where what libraries take is too much for the fastest ones', async () => {
    const flags = flagsOfOptions(
      mergeOptions(gptOptions(4, 64, 4, 128), {
        layout: { tensorModelParallelSize: 1, pipelineModelParallelSize: 1 },
        training: { recomputeGranularity: 'selective' },
      }),
    );
    const options = { flags, numProcesses: 2, profile: loadProfile('h100-80gb') };
    const mebibyte = 2 ** 20;
    // the allocator needs 252 MiB with micro-batch size 1, 286 MiB with 4 and 646 MiB with 32; libraries need
    // 608 MiB
    const { layouts } = await searchLayouts({ ...options, memoryBytes: 900 * mebibyte });
    expect(layouts.map(({ candidate }) => candidate.microBatch)).toEqual([4]);
    expect(layouts[0]!.estimatedBytes).toBeLessThan(300 * mebibyte);
    const told: SearchProgress[] = [];
    const refused = searchLayouts({
      ...options,
      memoryBytes: 700 * mebibyte,
      onProgress: (progress) => told.push(progress),
    });
    await expect(refused).rejects.toMatchObject({ expected: expect.stringMatching(/^about 86\d\.\d MiB, /) });
    // 6 plans end at a rank that does not fit: for each micro-batch size only the distributed optimizer,
    // which is the fastest store and needs the least memory. 3 full plans are for the layouts with the
    // smallest estimates
    expect(told.at(-1)!.numPlanned + 1).toBe(6 + 3);
  });

  it.each<{ options: RunOptions; code: string; message: RegExp }>([
    {
      options: { preset: 'none', training: { bf16: true } },
      code: 'MTL_FLAG_REQUIRED',
      message: /--num-layers, .+ missing/,
    },
    {
      options: mergeOptions(tiny, { training: { globalBatchSize: undefined } }),
      code: 'MTL_FLAG_REQUIRED',
      message: /^--global-batch-size is missing/,
    },
    {
      options: mergeOptions(tiny, { layout: { pipelineSchedule: 'zb-v' } }),
      code: 'MTL_PLAN_LAYOUT',
      message: /--pipeline-schedule zb-v/,
    },
    {
      options: mergeOptions(tiny, { layout: { pipelineModelParallelLayout: 'Et|ttt' } }),
      code: 'MTL_PLAN_LAYOUT',
      message: /-layout Et\|ttt/,
    },
    {
      options: mergeOptions(tiny, {
        layout: { useDistributedOptimizer: true, numDistributedOptimizerInstances: 2 },
      }),
      code: 'MTL_PLAN_LAYOUT',
      message: /--num-distributed-optimizer-instances 2/,
    },
    {
      options: mergeOptions(tiny, { checkpoint: { load: '/nonexistent' } }),
      code: 'MTL_CHECKPOINT_NONE',
      message: /nonexistent/,
    },
    // flags that are invalid in every layout
    {
      options: mergeOptions(tiny, { optimizer: { learningRateWarmupIterations: 2000 } }),
      code: 'MTL_LEARNING_RATE',
      message: /warm-up takes 2000/,
    },
  ])('refuses flags: $code, $message', async ({ options, code, message }) => {
    const flags = flagsOfOptions(options);
    for (const name of ['a100-80gb-megatron', 'h100-80gb']) {
      const profile = loadProfile(name);
      await expect(searchLayouts({ flags, numProcesses: 2, profile })).rejects.toMatchObject({
        code,
        message: expect.stringMatching(message),
      });
    }
  });

  it('tells what the least takes where nothing fits, and what has to divide', async () => {
    const profile = loadProfile('a100-80gb-megatron');
    const options = { flags: flagsOfOptions(tiny), numProcesses: 2, profile };
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
