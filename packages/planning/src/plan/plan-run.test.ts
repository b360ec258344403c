import { flagsOfOptions, type RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { type FusedAttentionOperation, loadProfile, type Operation, type Profile } from '@mtl/cost-model';
import { countedFlops } from '@mtl/kernels';
import { describe, expect, it } from 'vitest';
import { configureTinyGpt, layout, tinyGpt } from '../../test/support/tiny-gpt.js';
import { planIfFits, planRun, wholeMemory, withDeviceOfProfile } from './plan-run.js';
import { recordRun } from './record-run.js';

/** Returns the FLOPs of matmuls and attention, as the operations count them. */
function countFlops(operations: readonly Operation[]): number {
  return operations.reduce((sum, operation) => {
    if (operation.kind === 'matmul') {
      return sum + 2 * operation.batch * operation.rows * operation.columns * operation.depth;
    }
    if (operation.kind !== 'fused-attention') return sum;
    // causal attention records only the FLOPs of the half that is computed; its backward pass computes five
    // matmuls but counts four
    return sum + (2 * operation.flops) / (operation.name.endsWith('backward') ? 1.25 : 1);
  }, 0);
}

describe('recordRun', () => {
  it.each(['1f1b', 'zb-h1', 'gpipe'])('records the FLOPs that schedule %s counts', async (schedule) => {
    const options = mergeOptions({ training: { globalBatchSize: 8 } }, layout({ p: 2 }), {
      layout: { pipelineSchedule: schedule },
    });
    const run = await recordRun(configureTinyGpt(options, 2), { gpusPerNode: 8 });
    const { chunks, schedule: made } = run.step;
    const recorded = made.actions
      .flat()
      .reduce((sum, { kind, chunk }) => sum + countFlops(chunks[chunk]![kind]!), 0);
    expect(recorded).toBe(run.ranks.reduce((sum, { flops }) => sum + flops, 0));
    const kinds = schedule === 'zb-h1' ? ['F', 'I', 'W'] : ['F', 'B'];
    expect(Object.keys(chunks[0]!)).toEqual(kinds);
  });

  it('records which collectives are hidden, what is sent between stages, and what ends a step', async () => {
    const parallel: RunOptions = {
      layout: { sequenceParallel: true, useDistributedOptimizer: true, overlapGradReduce: true },
    };
    const options = mergeOptions({ training: { globalBatchSize: 8 } }, layout({ t: 2, p: 2 }), parallel);
    const run = await recordRun(configureTinyGpt(options, 8), { gpusPerNode: 4 });
    const { chunks, ends, message } = run.step;
    // in each of 2 layers, there is an all-gather and a reduce-scatter around attention and around the MLP;
    // there is one more collective for the embedding
    const starts = chunks[0]!.F!.filter(({ kind }) => kind === 'start');
    expect(starts).toHaveLength(2 * 4 + 1);
    const backward = chunks[0]!.B!;
    const hidden = backward.findIndex(
      ({ kind }, index) => kind === 'start' && backward[index + 1]!.kind === 'matmul',
    );
    expect(hidden).toBeGreaterThan(0);
    // a message has `S * B * H / t` float32 values
    expect(message).toEqual({ bytes: (4 * 32 * 2 * 64) / 2, gather: undefined, isInside: false });
    const [first] = ends;
    expect(first!.reduction.isOverlapped).toBe(true);
    const group = { axis: 'dp', size: 2, perNode: 2 };
    expect(first!.reduction.operations[0]).toMatchObject({ collective: 'reduce-scatter', group });
    expect(first!.gather.operations[0]).toMatchObject({ collective: 'all-gather', group });
    const names = first!.operations.flatMap((operation) => ('name' in operation ? [operation.name] : []));
    expect(names).toContain('adamw');
    expect(names).toContain('sum_of_squares');
  });
});

/** A model with experts in every second layer, sharded over both data-parallel ranks. */
const experts: RunOptions = {
  model: {
    disableBiasLinear: true,
    numExperts: 4,
    moeLayerFreq: '2',
    moeFfnHiddenSize: 48,
    moeRouterTopk: 2,
    moeSharedExpertIntermediateSize: 32,
  },
  training: { globalBatchSize: 8 },
  layout: { expertModelParallelSize: 2 },
};

describe('recordRun of experts', () => {
  const passes = async (options: RunOptions, worldSize = 2) =>
    await recordRun(configureTinyGpt(mergeOptions(experts, options), worldSize), { gpusPerNode: 8 });

  it('has a matmul for each expert, and all FLOPs', async () => {
    const { step, ranks } = await passes({});
    const recorded = step.schedule.actions
      .flat()
      .reduce((sum, { kind, chunk }) => sum + countFlops(step.chunks[chunk]![kind]!), 0);
    expect(recorded).toBe(ranks[0]!.flops);
    // each expert gets rows from 2 x 2 processes with 2 x 32 tokens, and each token chooses 2 experts; half
    // of the rows are sent
    const grouped = step.chunks[0]!.F!.filter(
      (operation) => operation.kind === 'matmul' && operation.name === 'grouped_matmul',
    );
    expect(grouped).toHaveLength(2 * 2);
    expect(grouped[0]).toMatchObject({ batch: 2, rows: (2 * 64 * 2) / 2 / 2, columns: 48, depth: 64 });
    const gradients = step.chunks[0]!.B!.filter(
      (operation) => operation.kind === 'matmul' && operation.name === 'grouped_weight_gradient',
    );
    expect(gradients.at(-1)).toMatchObject({ batch: 2, rows: 48, columns: 64, depth: 64 });
  });

  it.each<[string, RunOptions]>([
    ['by all-to-all', {}],
    ['by all-gather', { layout: { moeTokenDispatcherType: 'allgather' } }],
    ['divided', { layout: { expertModelParallelSize: 1, expertTensorParallelSize: 2 } }],
  ])('has the shared experts during exchanges, each waited for once: %s', async (_, options) => {
    const { step } = await passes(options);
    for (const [kind, matmuls] of [
      // each of two layers has both matmuls in the forward pass, and the gradients of inputs and weights in
      // the backward pass
      ['F', 2 * 2],
      ['B', 2 * 4],
    ] as const) {
      const operations = step.chunks[0]![kind]!;
      const underWay = new Set<number>();
      const waited: number[] = [];
      let numHidden = 0;
      for (const operation of operations) {
        if (operation.kind === 'start') underWay.add(operation.id);
        if (operation.kind === 'matmul' && underWay.size > 0) {
          numHidden += 1;
          expect(operation.name).not.toMatch(/^grouped/);
        }
        if (operation.kind !== 'wait') continue;
        underWay.delete(operation.id);
        waited.push(operation.id);
      }
      expect(underWay.size).toBe(0);
      expect(waited).toEqual([...new Set(waited)]);
      expect(numHidden).toBe(matmuls);
    }
  });

  it.each<[string, RunOptions]>([
    ['by all-to-all', {}],
    ['by all-gather', { layout: { moeTokenDispatcherType: 'allgather' } }],
    ['while gradients are reduced', { layout: { overlapGradReduce: true, useDistributedOptimizer: true } }],
  ])('tells dispatch from the reduction of gradients of the same processes: %s', async (_, options) => {
    const { step, groups } = await passes(options);
    const listAxes = (operations: readonly Operation[]) =>
      operations.flatMap((operation) =>
        operation.kind === 'start' ? [operation.collective.group.axis] : [],
      );
    expect(new Set(listAxes(step.chunks[0]!.F!))).toEqual(new Set(['ep']));
    const [{ reduction }] = step.ends as [(typeof step.ends)[number]];
    expect(new Set(reduction.operations.map(({ group }) => group.axis))).toEqual(new Set(['dp']));
    const names = reduction.operations.map(({ collective }) => collective);
    const isSharded = options.layout?.useDistributedOptimizer === true;
    expect(new Set(names)).toEqual(new Set([isSharded ? 'reduce-scatter' : 'all-reduce']));
    // the data-parallel group and the group of all processes have the same two members, so they share a
    // communicator
    expect(groups[0]!.map(({ group }) => group.size)).toEqual([2, 2]);
  });
});

it('records sums over instances after the passes, over the links between blocks of ranks', async () => {
  const options: RunOptions = {
    layout: { overlapGradReduce: true, useDistributedOptimizer: true, numDistributedOptimizerInstances: 2 },
  };
  const { step } = await recordRun(configureTinyGpt(options, 4), { gpusPerNode: 2 });
  const [{ operations, reduction }] = step.ends as [(typeof step.ends)[number]];
  expect(reduction.isOverlapped).toBe(true);
  expect(reduction.operations.map(({ collective }) => collective)).not.toContain('all-reduce');
  expect(reduction.operations[0]!.group).toMatchObject({ axis: 'dp', size: 2, perNode: 2 });
  const sums = operations.flatMap((operation) =>
    operation.kind === 'collective' && operation.group.role === 'dpInstances' ? [operation] : [],
  );
  expect(sums.length).toBeGreaterThan(0);
  for (const { collective, group } of sums) {
    expect(collective).toBe('all-reduce');
    expect(group).toMatchObject({ axis: 'dp', size: 2, perNode: 1 });
  }
});

describe('recordRun on device cuda', () => {
  const options: RunOptions = { training: { globalBatchSize: 8, bf16: true }, layout: { device: 'cuda' } };

  it('records one step, also with CUDA graphs, which run three', async () => {
    const [plain, graphed] = await Promise.all(
      [options, mergeOptions(options, { layout: { cudaGraphs: true } })].map(async (each) => {
        const { step } = await recordRun(configureTinyGpt(each), { gpusPerNode: 8 });
        return step.ends[0]!.operations.map(({ kind }) => kind);
      }),
    );
    expect(plain!.length).toBeGreaterThan(0);
    expect(graphed).toEqual(plain);
  });

  it('counts what a forward pass keeps on that device', async () => {
    const { keptBytes } = await recordRun(configureTinyGpt(options), { gpusPerNode: 8 });
    // the forward pass keeps at least the input of each of 4 layers, which has `S * B * H` values in bfloat16
    expect(keptBytes[0]).toBeGreaterThan(4 * 32 * 2 * 64 * 2);
  });

  it('has all FLOPs of attention that a window leaves', async () => {
    const attentionFlops = async (model: RunOptions['model']): Promise<number> => {
      const { step } = await recordRun(
        configureTinyGpt({ ...options, model: { ...tinyGpt.model, ...model } }),
        { gpusPerNode: 8 },
      );
      const [first] = step.chunks[0]!.F!.filter(({ kind }) => kind === 'fused-attention');
      return (first as FusedAttentionOperation).flops;
    };
    // two matmuls with `S * S * B * H` products each; the causal mask leaves half; with a window of 7 keys
    // before the query, `S * 8 * B * H`
    expect(await attentionFlops({})).toBe(2 * 2 * 32 * 32 * 2 * 64 * 0.5);
    expect(await attentionFlops({ windowSize: '7,0' })).toBe(2 * 2 * 32 * 8 * 2 * 64);
    expect(await attentionFlops({ windowSize: '40,0' })).toBe(2 * 2 * 32 * 32 * 2 * 64 * 0.5);
  });
});

describe('withDeviceOfProfile', () => {
  it('is cuda on a model of a GPU, unless a device is given', () => {
    const describeDevice = (layout: RunOptions['layout'], state?: 'measured'): string | undefined => {
      const profile = loadProfile('h100-80gb');
      const hardware = { ...profile.hardware, ...(state && { state }) } as Profile['hardware'];
      return withDeviceOfProfile(flagsOfOptions({ layout }), { ...profile, hardware }).values.device;
    };
    expect(describeDevice({})).toBe('cuda');
    expect(describeDevice({ device: 'cpu' })).toBe('cpu');
    expect(describeDevice({}, 'measured')).toBe('cpu');
  });
});

describe('planRun of experts', () => {
  const profile = loadProfile('a100-80gb');
  const makePlan = async (options: RunOptions, worldSize: number) =>
    await planRun(
      configureTinyGpt(mergeOptions(experts, { layout: { device: 'cuda' } }, options), worldSize),
      {
        profile,
      },
    );

  it('has the time of dispatch as a part of the step, apart from the time of gradients', async () => {
    const spread = await makePlan({}, 2);
    const { expertCommunication, dataCommunication } = spread.breakdown;
    expect(expertCommunication).toBeGreaterThan(0);
    expect(dataCommunication).toBeGreaterThan(0);
    const whole = await makePlan({ layout: { expertModelParallelSize: 1 } }, 2);
    expect(whole.breakdown.expertCommunication).toBe(0);
    // if each process has all experts, their gradients are also reduced
    expect(whole.breakdown.dataCommunication).toBeGreaterThan(dataCommunication);
  });

  it('says what a rank takes whose experts all tokens choose', async () => {
    const spread = await makePlan({}, 2);
    const most = Math.max(...spread.ranks.map(wholeMemory));
    expect(spread.unevenMemoryBytes).toBeGreaterThan(most);
    // in each of 2 layers, a process gets 2 times 64 tokens for 2 experts, which is twice the number with
    // even routing. This adds rows and their gradients in two sizes, and the permuted rows. Everything else
    // is equal
    expect(spread.unevenMemoryBytes! - most).toBeLessThan(128 * 4 * (4 * 64 + 6 * 48) * 2);
    expect((await makePlan({ layout: { expertModelParallelSize: 1 } }, 2)).unevenMemoryBytes).toBeUndefined();
    const gathered = await makePlan({ layout: { moeTokenDispatcherType: 'allgather' } }, 2);
    expect(gathered.unevenMemoryBytes).toBeGreaterThan(Math.max(...gathered.ranks.map(wholeMemory)));
  });
});

describe('planRun', () => {
  it('has the memory of the dry run, all ranks in one group each', async () => {
    const configuration = configureTinyGpt(
      mergeOptions({ training: { globalBatchSize: 16 } }, layout({ t: 2, p: 4 })),
      16,
    );
    const profile = loadProfile('h100-80gb');
    const { ranks, fits, breakdown, iterationSeconds } = await planRun(configuration, { profile });
    const run = await recordRun(configuration, { gpusPerNode: 8 });
    expect(fits).toBe(true);
    expect(ranks.flatMap((each) => each.ranks).sort((a, b) => a - b)).toEqual([...Array(16).keys()]);
    for (const each of run.ranks) {
      const group = ranks.find((some) => some.ranks.includes(each.rank))!;
      expect(group).toMatchObject({ memoryBytes: each.peakBytes, memoryByKind: each.memoryByKind });
    }
    const parts = Object.values(breakdown).reduce((sum, part) => sum + part, 0);
    expect(parts / iterationSeconds).toBeCloseTo(1, 9);
    const { fits: fitsLess } = await planRun(configuration, { profile, memoryBytes: 1 });
    expect(fitsLess).toBe(false);
  });

  it('tells what ranks send for sharded states', async () => {
    const profile = loadProfile('h100-80gb');
    const planned = async (useMegatronFsdp: boolean, globalBatchSize: number) => {
      const options = { training: { globalBatchSize }, layout: { useMegatronFsdp } };
      return (await planRun(configureTinyGpt(options, 2), { profile })).shardingTraffic;
    };
    expect(await planned(false, 8)).toBeUndefined();
    const [two, four, eight] = [await planned(true, 8), await planned(true, 16), await planned(true, 32)];
    expect(four!.reducedBytes).toBe(2 * two!.reducedBytes);
    expect(eight!.reducedBytes).toBe(2 * four!.reducedBytes);
    // every micro-batch except the first finds the root and the first layers already gathered in memory
    expect(eight!.gatheredBytes - four!.gatheredBytes).toBe(2 * (four!.gatheredBytes - two!.gatheredBytes));
    expect(four!.gatheredBytes).toBeLessThan(2 * two!.gatheredBytes);
  });

  it('counts what libraries take on each GPU, which has to fit, too', async () => {
    const profile = loadProfile('h100-80gb');
    const options = mergeOptions(
      { training: { globalBatchSize: 16, bf16: true }, layout: { device: 'cuda' } },
      layout({ t: 2, p: 4 }),
    );
    const configuration = configureTinyGpt(options, 16);
    const { ranks } = await planRun(configuration, { profile });
    const mebibyte = 2 ** 20;
    const ofStage = (stage: number) =>
      ranks.find(({ stages }) => stages.includes(stage))!.memoryOfLibraries!.communicators / mebibyte;
    // each of the two groups within a node (tensor and data) has 24 rings with 12 MiB, and the group of all
    // ranks has 16 rings with 20 MiB
    const collectives = 2 * 24 * 12 + 16 * 20;
    // 8 channels with 10 MiB are added for messages, which are sent and received in both directions
    expect(ofStage(1)).toBe(collectives + 4 * 8 * 10);
    // the first stage also has the group of the tied embedding, but only two messages instead of four
    expect(ofStage(0)).toBe(collectives + 16 * 20 + 2 * 8 * 10);
    const [first] = ranks;
    expect(first!.memoryOfLibraries!.matmulWorkspace).toBe(32 * mebibyte);
    const most = Math.max(...ranks.map(wholeMemory));
    expect((await planRun(configuration, { profile, memoryBytes: most })).fits).toBe(true);
    expect((await planRun(configuration, { profile, memoryBytes: most - 1 })).fits).toBe(false);
    const onCpu = await planRun(configureTinyGpt({ training: { globalBatchSize: 16 } }, 1), { profile });
    expect(onCpu.ranks[0]!.memoryOfLibraries).toBeUndefined();
  });

  it('predicts other programs by lists, whole backward passes only', async () => {
    const profile = loadProfile('a100-80gb-megatron');
    const options = mergeOptions({ training: { bf16: true, globalBatchSize: 8 } }, layout({ p: 2 }));
    const { ranks, iterationSeconds } = await planRun(configureTinyGpt(options, 2), { profile });
    expect(iterationSeconds).toBeGreaterThan(0);
    // both stages have the embedding, and two layers with `12 * h * h` parameters
    const numParameters = 2 * (12 * 64 * 64 + 13 * 64) + 1024 * 64 + 32 * 64;
    expect(ranks[0]!.memoryByKind.gradients).toBe(4 * numParameters);
    const halves = configureTinyGpt(mergeOptions(options, { layout: { pipelineSchedule: 'zb-h1' } }), 2);
    await expect(planRun(halves, { profile })).rejects.toMatchObject({ code: 'MTL_PLAN_LAYOUT' });
    const fp32 = configureTinyGpt(mergeOptions(options, { training: { bf16: undefined } }), 2);
    await expect(planRun(fp32, { profile })).rejects.toMatchObject({
      code: 'MTL_PROFILE',
      remedy: 'pass --bf16',
    });
    const lora = { rank: 2, alpha: 2, useRslora: false, dropout: 0, targets: ['all-linear'] };
    await expect(planRun({ ...configureTinyGpt(options, 2), lora }, { profile })).rejects.toMatchObject({
      code: 'MTL_PROFILE',
      message: expect.stringContaining('--lora-rank'),
    });
  });
});

describe('planIfFits', () => {
  const profile = loadProfile('h100-80gb');
  const configuration = configureTinyGpt(
    mergeOptions({ training: { globalBatchSize: 8 } }, layout({ t: 2, p: 4 }), { model: { numLayers: 4 } }),
    8,
  );

  it('is the plan of a run that fits, and undefined for one that does not', async () => {
    const plan = await planRun(configuration, { profile });
    const most = Math.max(...plan.ranks.map(wholeMemory));
    expect(await planIfFits(configuration, { profile, memoryBytes: most })).toEqual({
      ...plan,
      capacityBytes: most,
    });
    // FLOPs are counted separately for each rank, so this is the count of the last rank, which has the head
    const ofLast = countedFlops();
    // planning ended at the first rank, which does not fit, and which needs fewer FLOPs than the last rank
    expect(await planIfFits(configuration, { profile, memoryBytes: 2 ** 10 })).toBeUndefined();
    expect(countedFlops()).toBeLessThan(ofLast);
    // the ranks would fit without the memory of libraries, which is determined only after all ranks have run
    expect(await planIfFits(configuration, { profile, memoryBytes: most - 1 })).toBeUndefined();
  });
});
