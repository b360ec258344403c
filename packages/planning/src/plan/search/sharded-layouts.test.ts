import { flagsOfOptions, type RunOptions, validateConfiguration } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { loadProfile, type Profile } from '@mtl/cost-model';
import { describe, expect, it } from 'vitest';
import { gptOptions } from '../../../test/support/paper-searches.js';
import { planRun, type RunPlan, wholeMemory } from '../plan-run.js';
import { type FoundLayout, searchLayouts } from './search-layouts.js';

const profile = loadProfile('h100-80gb');
const onOneStage: RunOptions = { layout: { tensorModelParallelSize: 1, pipelineModelParallelSize: 1 } };
const small = mergeOptions(gptOptions(8, 1024, 16, 32), onOneStage);

const countBytes = ({ ranks }: RunPlan): number => Math.max(...ranks.map(wholeMemory));

const search = async (options: RunOptions, own: { memoryBytes?: number; profile?: Profile } = {}) =>
  await searchLayouts({ flags: flagsOfOptions(options), numProcesses: 8, profile, ...own });

/** Plans a run with the given layout, as `mtl plan` does. */
async function planOf(options: RunOptions, layout: RunOptions['layout']): Promise<RunPlan> {
  const own = flagsOfOptions(mergeOptions(options, { layout: { device: 'cuda', ...layout } }));
  return await planRun(validateConfiguration(own, { worldSize: 8 }), { profile });
}

describe('searchLayouts, sharded stores', () => {
  it('offers fully sharded parameters to a model that only fits with them, with the flags to copy', async () => {
    const options = mergeOptions(small, {
      training: { microBatchSize: 1, recomputeGranularity: 'selective' },
    });
    const full = await planOf(options, { useMegatronFsdp: true });
    const memoryBytes = countBytes(full);
    for (const dataParallelShardingStrategy of ['no_shard', 'optim', 'optim_grads'] as const) {
      expect(countBytes(await planOf(options, { dataParallelShardingStrategy }))).toBeGreaterThan(
        memoryBytes,
      );
    }
    const { layouts } = await search(options, { memoryBytes });
    expect(layouts).toHaveLength(1);
    const [{ candidate, words, plan }] = layouts as [FoundLayout];
    expect(candidate.dataParallelShardingStrategy).toBe('optim_grads_params');
    expect(words.join(' ')).toBe(
      '--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params --device cuda',
    );
    // a run with these flags needs exactly as much memory and time as is printed
    expect(plan.ranks).toEqual(full.ranks);
    expect(plan.iterationSeconds).toBe(full.iterationSeconds);
  });

  it('prefers whole parameters and gradients where they fit and links are fast', async () => {
    for (const globalBatchSize of [32, 512]) {
      const options = mergeOptions(small, { training: { globalBatchSize, microBatchSize: 4 } });
      const [{ candidate, words, plan }] = (await search(options)).layouts as [FoundLayout];
      expect(candidate.dataParallelShardingStrategy).toBe('optim');
      expect(words.join(' ')).toContain(
        '--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather',
      );
      for (const dataParallelShardingStrategy of ['optim_grads', 'optim_grads_params'] as const) {
        const sharded = await planOf(options, { dataParallelShardingStrategy, overlapParamGather: false });
        expect(sharded.iterationSeconds).toBeGreaterThan(plan.iterationSeconds);
      }
    }
  });

  it('keeps a strategy that is given, and reports overlaps that it can add', async () => {
    const given = async (layout: RunOptions['layout']): Promise<readonly string[]> => {
      const options = mergeOptions(small, { layout, training: { microBatchSize: 2 } });
      const { layouts } = await search(options);
      return layouts.map(({ candidate, words }) => `${candidate.dataParallelShardingStrategy}: ${words[0]}`);
    };
    for (const first of await given({ useMegatronFsdp: true }))
      expect(first).toMatch(/^optim_grads_params: /);
    const strategy = 'optim_grads';
    for (const first of await given({ dataParallelShardingStrategy: strategy })) {
      expect(first).toMatch(/^optim_grads: --(?:overlap-param-gather|recompute-granularity)$/);
    }
    for (const first of await given({ useMegatronFsdp: true, useDistributedOptimizer: true })) {
      expect(first).toMatch(/^optim_grads_params: /);
    }
  });

  it('refuses divided gradients for lists of other programs, which reduce gradients once a step', async () => {
    for (const layout of [
      { useMegatronFsdp: true },
      { dataParallelShardingStrategy: 'optim_grads' },
      { dataParallelShardingStrategy: 'optim_grads_params' },
    ] as const) {
      const flags = flagsOfOptions(mergeOptions(small, { layout }));
      const listed = { flags, numProcesses: 8, profile: loadProfile('a100-80gb-megatron') };
      const flag =
        'useMegatronFsdp' in layout
          ? '--use-megatron-fsdp true'
          : `--data-parallel-sharding-strategy ${layout.dataParallelShardingStrategy}`;
      await expect(searchLayouts(listed)).rejects.toMatchObject({
        code: 'MTL_PLAN_LAYOUT',
        message: `a search cannot leave ${flag} as it is`,
      });
    }
  });
});

/** Returns the profile with links that are slower by `factor`. */
function withLinks(factor: number): Profile {
  const changed = structuredClone(profile);
  for (const link of [changed.hardware.linkInside, changed.hardware.linkBetween!]) {
    link.bytesPerSecond.value /= factor;
  }
  return changed;
}

describe('estimates of sharded stores', () => {
  /** Returns the relative errors of the estimated time and memory, compared with full plans. */
  async function estimateErrors(options: RunOptions, own: Parameters<typeof search>[1] = {}) {
    const { layouts } = await search(options, own);
    return layouts.map(({ plan, estimatedSeconds, estimatedBytes }) => ({
      time: Math.abs(estimatedSeconds / plan.iterationSeconds - 1),
      memory: Math.abs(estimatedBytes / Math.max(...plan.ranks.map(({ memoryBytes }) => memoryBytes)) - 1),
    }));
  }

  const layouts: readonly (readonly [string, RunOptions])[] = [
    ['one stage', onOneStage],
    ['one stage, untied', mergeOptions(onOneStage, { model: { untieEmbeddingsAndOutputWeights: true } })],
    [
      'two stages of two tensor-parallel ranks',
      { layout: { tensorModelParallelSize: 2, pipelineModelParallelSize: 2, pipelineSchedule: '1f1b' } },
    ],
    [
      'two stages of three chunks',
      {
        layout: {
          tensorModelParallelSize: 1,
          pipelineModelParallelSize: 2,
          numVirtualStagesPerPipelineRank: 3,
        },
      },
    ],
  ];
  it.each(
    layouts.flatMap(([name, layout]) =>
      (['optim_grads', 'optim_grads_params'] as const).map((strategy) => ({ name, layout, strategy })),
    ),
  )('are near whole plans: $strategy, $name', async ({ layout, strategy }) => {
    const options = mergeOptions(gptOptions(24, 2048, 16, 64), layout, {
      layout: { dataParallelShardingStrategy: strategy },
      training: { microBatchSize: 4 },
    });
    for (const factor of [1, 10]) {
      for (const { time, memory } of await estimateErrors(options, { profile: withLinks(factor) })) {
        // a plan knows where in a pass each unit communicates, but an estimate knows only how much a pass can
        // overlap
        expect(time).toBeLessThan(0.05);
        // the gradients of two layers and the largest activations may be present at different times; a search
        // keeps candidates that exceed the available memory by up to 5 %
        expect(memory).toBeLessThan(0.04);
      }
    }
  });
});
