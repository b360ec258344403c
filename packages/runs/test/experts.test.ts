import { existsSync, writeFileSync } from 'node:fs';
import { Checkpoint, hostTensor, loadCheckpoint } from '@mtl/checkpoint';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TrainGptResult } from './ranks/train-gpt.js';
import { checkpointBytes } from './support/checkpoint-bytes.js';
import {
  listNumbers,
  printedTwice,
  type Training,
  TrainingRuns,
  tolerances,
  validationDifference,
} from './support/training-runs.js';

/** Experts as in DeepSeek-V3, in the second of two layers, with all state that routers keep between steps. */
const experts: RunOptions = {
  model: {
    normalization: 'RMSNorm',
    swiglu: true,
    disableBiasLinear: true,
    ffnHiddenSize: 64,
    numExperts: 8,
    moeLayerFreq: '[0,1]',
    moeRouterTopk: 2,
    moeFfnHiddenSize: 32,
    moeRouterScoreFunction: 'sigmoid',
    moeRouterEnableExpertBias: true,
    moeRouterBiasUpdateRate: 0.01,
    moeRouterLoadBalancingType: ['seq_aux_loss', 'global_aux_loss'],
    moeAuxLossCoeff: [0.001, 0.01],
    moeSharedExpertIntermediateSize: 32,
  },
  training: { trainIterations: 8, evalInterval: 4 },
  optimizer: { learningRateDecayIterations: 8 },
  checkpoint: { saveInterval: 4 },
};
const spread: RunOptions = {
  layout: {
    expertModelParallelSize: 2,
    useDistributedOptimizer: true,
    overlapGradReduce: true,
    overlapParamGather: true,
  },
};
const shared: RunOptions = { layout: { tensorModelParallelSize: 2, sequenceParallel: true } };
const folded: RunOptions = mergeOptions(shared, {
  layout: { expertTensorParallelSize: 1, expertModelParallelSize: 2 },
});
const muon: RunOptions = { optimizer: { optimizer: 'muon' } };
const bias = 'decoder.layers.1.mlp.router.expert_bias';

let runs: TrainingRuns;
beforeAll(async () => {
  runs = await TrainingRuns.create(experts);
});
afterAll(() => runs.remove());

const at = (name: string, iteration: number): string =>
  `${runs.locate(name)}/iter_${String(iteration).padStart(7, '0')}`;

/** Returns the values of a tensor in a checkpoint. */
async function readValues(name: string, tensor: string, iteration: number): Promise<readonly number[]> {
  const checkpoint = await Checkpoint.open(at(name, iteration));
  const { globalShape } = checkpoint.tensors.get(tensor)!;
  const values = new Float32Array(globalShape.reduce((product, size) => product * size, 1));
  const memory = new Uint8Array(values.buffer);
  const target = hostTensor({ name: tensor, dtype: 'F32', globalShape, memory });
  await loadCheckpoint({ checkpoint, tensors: [target], ignore: () => true });
  return [...values];
}

/** Expects that two runs of two ranks have saved the same bits. */
function expectSameBits(name: string, expected: string, iteration: number): void {
  expect(checkpointBytes(at(name, iteration))).toEqual(checkpointBytes(at(expected, iteration)));
}

describe('experts on two ranks', () => {
  let alone: TrainGptResult;
  let two: TrainGptResult;

  beforeAll(async () => {
    const [[one]] = (await runs.run(1, [{ name: 'alone' }])) as [TrainGptResult[]];
    alone = one!;
    const all = await runs.run(2, [
      { name: 'spread', options: spread },
      { name: 'stopped', options: mergeOptions(spread, { training: { exitInterval: 3 } }) },
      {
        // one step more than the checkpoint that is saved in the background meanwhile
        name: 'async',
        options: mergeOptions(spread, { checkpoint: { asyncSave: true }, training: { exitInterval: 5 } }),
      },
    ]);
    two = all[0]![0]!;
  });

  it('are trained and evaluated as on one process', () => {
    const { loss, norm } = runs.differences('spread', 'alone');
    expect(loss).toBeLessThan(tolerances.fp32.loss);
    expect(norm).toBeLessThan(tolerances.fp32.norm);
    expect(validationDifference(two.output, alone.output)).toBeLessThan(printedTwice + tolerances.fp32.loss);
  });

  it('are resumed bit by bit, with what routers remember', async () => {
    const goesOn = mergeOptions(spread, { checkpoint: { load: runs.locate('stopped') } });
    await runs.run(2, [{ name: 'stopped', options: goesOn }]);
    expect(listNumbers(runs.readMetrics('stopped'))).toEqual(listNumbers(runs.readMetrics('spread')));
    expectSameBits('stopped', 'spread', 8);
    const names = [...(await Checkpoint.open(at('spread', 8))).tensors.keys()];
    expect(names).toContain(bias);
    expect(names.filter((name) => name.startsWith('optimizer.load.'))).not.toEqual([]);
    expect(new Set(await readValues('spread', bias, 8)).size).toBeGreaterThan(1);
  });

  it('are saved in the background as in the foreground', () => {
    expectSameBits('async', 'spread', 4);
    expect(existsSync(at('async', 5))).toBe(true);
  });

  it.each<[string, number, RunOptions]>([
    ...inWholeRuns<[string, number, RunOptions][]>(['alone', 1, {}]),
    ['shared by tensor-parallel ranks', 2, shared],
    ['divided over tensor-parallel ranks', 2, folded],
    ['shared by data-parallel ranks', 2, { layout: { expertTensorParallelSize: 2 } }],
  ])('go on in another layout: %s', async (layout, worldSize, options) => {
    const load: RunOptions = { checkpoint: { load: runs.locate('spread'), checkpointStep: 4 } };
    const name = `from spread ${layout}`;
    await runs.run(worldSize, [{ name, options: mergeOptions(options, load) }]);
    const actual = runs.readMetrics(name);
    const expected = runs.readMetrics('spread').slice(4);
    expect(actual.map(({ iteration }) => iteration)).toEqual([5, 6, 7, 8]);
    actual.forEach(({ lm_loss, grad_norm }, index) => {
      expect(Math.abs(lm_loss / expected[index]!.lm_loss - 1)).toBeLessThan(tolerances.fp32.loss);
      expect(Math.abs(grad_norm / expected[index]!.grad_norm - 1)).toBeLessThan(tolerances.fp32.norm);
    });
    // all biases move in steps of one size, and both runs chose the same experts
    const [biases, others] = [await readValues(name, bias, 8), await readValues('spread', bias, 8)];
    biases.forEach((value, expert) => {
      expect(value).toBeCloseTo(others[expert]!, 6);
    });
  });

  it('are updated by Muon one by one, wherever they are', async () => {
    const load = mergeOptions(muon, { training: { evalIterations: 0, exitInterval: 4 } });
    await runs.run(1, [{ name: 'muon alone', options: load }]);
    await runs.run(2, [
      { name: 'muon spread', options: mergeOptions(load, spread) },
      { name: 'muon shared', options: mergeOptions(load, shared) },
    ]);
    for (const name of ['muon spread', 'muon shared']) {
      const { loss, norm } = runs.differences(name, 'muon alone');
      // the bounds of parity: rounding of sums in another order
      expect(loss).toBeLessThan(tolerances.fp32.loss);
      expect(norm).toBeLessThan(tolerances.fp32.norm);
    }
  });

  it('have the biases of before a spike when the run goes back, and skip its samples', async () => {
    const back: Training = {
      name: 'back',
      options: mergeOptions(spread, {
        spikes: { window: 3, policy: 'roll-back' },
        training: { evalIterations: 0 },
      }),
      spike: { iteration: 7, factor: 100 },
    };
    const [[result]] = (await runs.run(2, [back])) as [TrainGptResult[]];
    expect(result!.output).toMatch(/iteration 4/);
    expect(runs.readRecords('back').filter(({ type }) => type === 'spike')).toHaveLength(1);
    // each counted step has moved a bias once or not at all; rolled-back steps have not
    const moved = (await readValues('back', bias, 8)).map((value) => value / 0.01);
    for (const steps of moved) {
      expect(Math.abs(steps)).toBeLessThanOrEqual(8 + 1e-3);
      expect(Math.abs(steps - Math.round(steps))).toBeLessThan(1e-3);
    }
  });

  it('keep their biases in steps whose gradients overflow', async () => {
    const overflowing: RunOptions = {
      training: { fp16: true, evalIterations: 0 },
      optimizer: { initialLossScale: 2 ** 24, hysteresis: 1 },
      checkpoint: { saveInterval: 1, keepLast: 99 },
    };
    await runs.run(2, [{ name: 'overflow', options: mergeOptions(spread, overflowing) }]);
    const skipped = runs.readRecords('overflow').filter((record) => record.skipped === true);
    const [first] = runs
      .readRecords('overflow')
      .filter(({ type, skipped: isSkipped }) => type === undefined && isSkipped !== true);
    expect(skipped.length).toBeGreaterThan(1);
    const { iteration } = first!;
    // only the first step that was not skipped has moved the biases
    const moved = new Set((await readValues('overflow', bias, iteration)).map((value) => Math.abs(value)));
    expect(Math.max(...moved)).toBeCloseTo(0.01, 6);
  });
});

it('learn from conversations on two ranks as on one', async () => {
  const template =
    "{% for m in messages %}{{ m.role[0] + ':' + m.content + eos_token }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}";
  const lines = (from: number, to: number): string =>
    Array.from({ length: to - from }, (_, index) => from + index)
      .map((number) =>
        JSON.stringify({
          messages: [
            { role: 'user', content: `${number}+${number % 7}?` },
            { role: 'assistant', content: `${number + (number % 7)}${'!'.repeat(number % 5)}` },
          ],
        }),
      )
      .join('\n');
  writeFileSync(runs.locate('train.jsonl'), lines(0, 20));
  writeFileSync(runs.locate('validation.jsonl'), lines(20, 27));
  writeFileSync(runs.locate('chat.jinja'), template);
  const options: RunOptions = {
    data: {
      dataPath: undefined,
      split: undefined,
      eodMaskLoss: undefined,
      trainData: [runs.locate('train.jsonl')],
      validationData: [runs.locate('validation.jsonl')],
      chatTemplate: runs.locate('chat.jinja'),
      epochs: 2,
    },
    training: {
      trainIterations: undefined,
      evalIterations: undefined,
      evalInterval: undefined,
      globalBatchSize: 4,
    },
    optimizer: { learningRateDecayIterations: undefined },
  };
  const [[alone]] = (await runs.run(1, [{ name: 'chat alone', options }])) as [TrainGptResult[]];
  const [[two]] = (await runs.run(2, [{ name: 'chat', options: mergeOptions(options, spread) }])) as [
    TrainGptResult[],
  ];
  const { loss, norm } = runs.differences('chat', 'chat alone');
  expect(loss).toBeLessThan(tolerances.fp32.loss);
  expect(norm).toBeLessThan(tolerances.fp32.norm);
  expect(validationDifference(two!.output, alone!.output)).toBeLessThan(printedTwice + tolerances.fp32.loss);
  expect(two!.sample).toBe(alone!.sample);
});
