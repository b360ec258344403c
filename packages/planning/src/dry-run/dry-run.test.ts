import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  describeGptModel,
  flagsOfOptions,
  type PretrainingConfiguration,
  type RunOptions,
} from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { memoryStatistics, numLiveTensors } from '@mtl/kernels';
import { afterEach, describe, expect, it } from 'vitest';
import { configureTinyGpt, layout, tinyGpt } from '../../test/support/tiny-gpt.js';
import { type DryRun, dryRun, enoughMicroBatches } from './dry-run.js';
import { dryRunRank, metaRun } from './dry-run-rank.js';
import { printDryRun } from './print-dry-run.js';

const eightLayers: RunOptions = { model: { numLayers: 8 } };
const configured = (options: RunOptions, worldSize?: number): PretrainingConfiguration =>
  configureTinyGpt(mergeOptions(eightLayers, options), worldSize);

const run = async (options: RunOptions, worldSize?: number): Promise<DryRun> =>
  await dryRun(configured(options, worldSize));

afterEach(() => {
  expect(numLiveTensors()).toBe(0);
  expect(memoryStatistics('meta').bytesInUse).toBe(0);
});

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

describe('dryRun', () => {
  it('leaves no descriptor open', async () => {
    const openFiles = (): number => readdirSync('/proc/self/fd').length;
    // the first run creates everything that is created only once per process, such as threads
    await run({});
    const before = openFiles();
    await run({});
    expect(openFiles()).toBe(before);
  });

  it('tells of each rank when it is run, and ends with what the listener throws', async () => {
    const configuration = configured(
      mergeOptions({ training: { globalBatchSize: 24 } }, layout({ t: 2, p: 4 })),
      24,
    );
    const told: number[] = [];
    const onRank = ({ rank }: { readonly rank: number }): void => {
      told.push(rank);
      if (told.length === 2) throw new Error('enough');
    };
    await expect(dryRun(configuration, { onRank })).rejects.toThrow('enough');
    expect(told).toEqual([0, 1]);
  });

  it('runs one rank of each kind', async () => {
    const { ranks } = await run(
      mergeOptions({ training: { globalBatchSize: 24 } }, layout({ t: 2, p: 4 })),
      24,
    );
    expect(ranks.map(({ rank }) => rank)).toEqual([0, 1, 6, 12, 18, 19]);
    // the middle stages of a pipeline differ only in the number of micro-batches in flight
    const [, , second, third] = ranks;
    expect(third!.flops).toBe(second!.flops);
    expect(third!.peakBytes).toBeLessThan(second!.peakBytes);
  });

  it('splits parameters and FLOPs of one process', async () => {
    const batch = { training: { globalBatchSize: 8 } };
    const whole = await run(batch);
    const split = await run(mergeOptions(batch, layout({ p: 4 })), 4);
    expect(sum(split.ranks.map(({ flops }) => flops))).toBe(whole.ranks[0]!.flops);
    // the last stage has a copy of the tied embedding
    const copy = 64 * 1024;
    expect(sum(split.ranks.map(({ numParameters }) => numParameters))).toBe(whole.numParameters + copy);
    expect(whole.ranks[0]!.numParameters).toBe(whole.numParameters);
  });

  it('tells what memory is for', async () => {
    const batch = { training: { globalBatchSize: 8, bf16: true } };
    const { ranks, numParameters } = await run(mergeOptions(batch, layout({ p: 4 })), 4);
    for (const { memoryByKind, peakBytes, ...rank } of ranks) {
      expect(sum(Object.values(memoryByKind))).toBe(peakBytes);
      expect(rank.numParameters).toBeLessThan(numParameters);
      // at most 1% padding
      expect(memoryByKind.parameters / (2 * rank.numParameters)).toBeLessThan(1.01);
      expect(memoryByKind.gradients).toBe(2 * memoryByKind.parameters);
      // float32 master weights and two moments
      expect(memoryByKind.optimizer).toBeGreaterThanOrEqual(12 * rank.numParameters);
      // 12 bytes per parameter, plus the allocator's rounding, which is at most an eighth of each buffer (18
      // bytes per parameter)
      expect(memoryByKind.optimizer).toBeLessThan((12 + 18 / 8) * rank.numParameters);
      expect(memoryByKind.temporary).toBeGreaterThan(0);
    }
    // each earlier stage has an additional micro-batch in flight
    const [, second, third] = ranks.map(({ memoryByKind }) => memoryByKind.activations);
    expect(second).toBeGreaterThan(1.4 * third!);
  });

  it('counts what ranks send, by axis', async () => {
    const options = mergeOptions(
      { training: { globalBatchSize: 8 }, layout: { useDistributedOptimizer: true } },
      layout({ t: 2, p: 4 }),
    );
    const { ranks } = await run(options, 16);
    const [{ numParameters, sentBytes }] = ranks as [DryRun['ranks'][number]];
    // float32 gradients are reduce-scattered and parameters are all-gathered; each collective transfers half
    // of a padded buffer
    expect(sentBytes.dp! / (4 * numParameters)).toBeGreaterThan(1);
    expect(sentBytes.dp! / (4 * numParameters)).toBeLessThan(1.05);
    // half of the float32 tensor [S, B, H] is sent between stages, for each of 2 micro-batches
    expect(sentBytes.pp! / (2 * 32 * 2 * 64 * 2)).toBeCloseTo(1, 0);
    expect(sentBytes.tp).toBeGreaterThan(0);
  });

  it.each(['optim_grads', 'optim_grads_params'] as const)(
    'counts the communication of %s in all micro-batches, although it runs a few',
    async (dataParallelShardingStrategy) => {
      const options: RunOptions = {
        training: { globalBatchSize: 32 },
        layout: { dataParallelShardingStrategy },
      };
      const configuration = configured(options, 2);
      const { model, ranks } = await dryRun(configuration);
      const numMicroBatches = 8;
      expect(enoughMicroBatches(configuration)).toBeLessThan(numMicroBatches);
      const whole = await dryRunRank(metaRun(configuration), { rank: 0, model });
      const { sentBytes, shardingTraffic } = ranks[0]!;
      expect(sentBytes.dp).toBe(whole.sentBytes.dp);
      expect(shardingTraffic).toEqual(whole.shardingTraffic);
      const { gatheredBytes, reducedBytes } = shardingTraffic!;
      expect(gatheredBytes + reducedBytes).toBe(sentBytes.dp);
      // in every micro-batch, a rank sends half of the float32 gradients
      const inAll = (numMicroBatches * 4 * whole.numParameters) / 2;
      expect(reducedBytes / inAll).toBeGreaterThan(1);
      expect(reducedBytes / inAll).toBeLessThan(1.05);
    },
  );

  it.each(['optim', 'optim_grads', 'optim_grads_params'] as const)(
    'counts sums over instances once in a step, and the rest within an instance: %s',
    async (dataParallelShardingStrategy) => {
      const options = (numDistributedOptimizerInstances: number, globalBatchSize: number): RunOptions => ({
        training: { globalBatchSize },
        layout: { dataParallelShardingStrategy, numDistributedOptimizerInstances },
      });
      const { ranks } = await run(options(2, 64), 4);
      const { numParameters, sentBytes, shardingTraffic } = ranks[0]!;
      // the float32 gradients that a rank owns (half of all gradients) are all-reduced over two instances
      const owned = (4 * numParameters) / 2;
      expect(sentBytes.dpInstances! / owned).toBeGreaterThanOrEqual(1);
      expect(sentBytes.dpInstances! / owned).toBeLessThan(1.05);
      const { gatheredBytes, reducedBytes, acrossInstancesBytes } = shardingTraffic!;
      expect(acrossInstancesBytes).toBe(sentBytes.dpInstances);
      expect(gatheredBytes + reducedBytes).toBe(sentBytes.dp);
      // within its instance, a rank sends as much as a rank in a run of only one instance that has the same
      // number of micro-batches
      const { ranks: alone } = await run(options(1, 32), 2);
      expect(sentBytes.dp).toBe(alone[0]!.sentBytes.dp);
      expect(ranks[0]!.peakBytes).toBe(alone[0]!.peakBytes);
      expect(alone[0]!.shardingTraffic?.acrossInstancesBytes).toBeUndefined();
    },
  );

  it.each(['gpipe', '1f1b', 'zb-h1', 'zb-h2', 'zb-v'])('runs schedule %s of a BERT', async (schedule) => {
    const options = mergeOptions(
      { model: { kind: 'bert' }, training: { globalBatchSize: 16 }, layout: { pipelineSchedule: schedule } },
      layout({ p: 2 }),
    );
    const { ranks } = await run(options, 2);
    for (const { peakBytes, flops } of ranks) expect([peakBytes > 0, flops > 0]).toEqual([true, true]);
  });

  it.each<[string, number, RunOptions]>([
    ['1f1b', 4, {}],
    ['gpipe', 16, {}],
    ['zb-h1', 4, {}],
    ['zb-h2', 4, { layout: { sequenceParallel: true }, training: { bf16: true } }],
    ['zb-v', 4, {}],
    ['interleaved', 4, { layout: { numVirtualStagesPerPipelineRank: 2, overlapGradReduce: true } }],
    ['breadth-first', 16, { layout: { numVirtualStagesPerPipelineRank: 2 } }],
  ])('counts a step of schedule %s by %i of 16 micro-batches', async (schedule, count, options) => {
    const all = mergeOptions(
      { training: { globalBatchSize: 64 }, layout: { pipelineSchedule: schedule } },
      layout({ t: 2, p: 2 }),
      options,
    );
    const configuration = configured(all, 8);
    const numMicroBatches = enoughMicroBatches(configuration);
    expect(numMicroBatches).toBe(count);
    const model = describeGptModel(configuration.model, 999);
    // each micro-batch sends one loss, and the losses of both replicas are summed over 8 ranks
    const lossBytes = 8 * (16 - numMicroBatches);
    const sentOfLosses = 2 * lossBytes * 2 * (7 / 8);
    for (const rank of [0, 4]) {
      const all = await dryRunRank(metaRun(configuration), { rank, model });
      const some = await dryRunRank(metaRun(configuration, { numMicroBatches }), { rank, model });
      expect(all.peakBytes - some.peakBytes).toBeGreaterThanOrEqual(0);
      expect(all.peakBytes - some.peakBytes).toBeLessThan(lossBytes + 64);
      expect(some).toEqual({
        ...all,
        peakBytes: some.peakBytes,
        memoryByKind: some.memoryByKind,
        sentBytes: { ...all.sentBytes, world: all.sentBytes.world! - sentOfLosses },
      });
    }
  });

  it('finds errors of the run', async () => {
    const options: RunOptions = {
      training: { globalBatchSize: 6 },
      layout: { numLayersPerVirtualPipelineStage: 1 },
    };
    await expect(run(mergeOptions(options, layout({ p: 4 })), 4)).rejects.toMatchObject({
      code: 'MTL_SCHEDULE_MICRO_BATCHES',
    });
  });
});

describe('printDryRun', () => {
  async function printed(options: RunOptions, numProcesses?: number): Promise<string> {
    const lines: string[] = [];
    const withoutData = mergeOptions(tinyGpt, eightLayers, { data: { dataPath: undefined } }, options);
    const flags = flagsOfOptions(withoutData);
    await printDryRun({ flags, numProcesses, variables: {}, print: (text) => lines.push(text) });
    return lines.join('\n');
  }

  it('prints ranks that take the same in one line, and writes nothing', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'mtl-dry-run-'));
    try {
      const options: RunOptions = {
        training: { globalBatchSize: 8 },
        layout: { pipelineSchedule: 'gpipe' },
        data: { dataPath: ['nowhere'] },
        checkpoint: { save: join(directory, 'run') },
      };
      const text = await printed(mergeOptions(options, layout({ t: 2, p: 4 })), 8);
      expect(text).toContain('on 8 processes (tensor 2 x pipeline 4 x data 1), vocabulary 999');
      expect(text.match(/^stage.*?(?= {2})/gm)).toEqual(['stage 0', 'stages 1 to 2', 'stage 3']);
      expect(readdirSync(directory)).toEqual([]);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  it('takes the processes that one copy of the model needs', async () => {
    expect(
      await printed(mergeOptions({ training: { globalBatchSize: 8 } }, layout({ t: 2, p: 2 }))),
    ).toContain('on 4 processes');
  });

  it('refuses what the run would refuse', async () => {
    await expect(printed(layout({ t: 4 }), 6)).rejects.toMatchObject({ code: 'MTL_WORLD_SIZE' });
  });
});
