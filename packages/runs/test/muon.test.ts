import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Checkpoint } from '@mtl/checkpoint';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listNumbers, TrainingRuns, tolerances } from './support/training-runs.js';

const muon: RunOptions = {
  optimizer: {
    optimizer: 'muon',
    muonMomentum: 0.95,
    muonNesterov: true,
    muonExtraScaleFactor: 0.2,
    weightDecay: 0.1,
  },
  training: { trainIterations: 12, evalInterval: 12 },
};
const distributed: RunOptions = {
  layout: { useDistributedOptimizer: true, overlapGradReduce: true, overlapParamGather: true },
};
const sharded: RunOptions = { layout: { useMegatronFsdp: true } };
const dividedGradients: RunOptions = { layout: { dataParallelShardingStrategy: 'optim_grads' } };
const tensor: RunOptions = { layout: { tensorModelParallelSize: 2, sequenceParallel: true } };
const pipeline: RunOptions = { layout: { pipelineModelParallelSize: 2 } };
/**
 * A model like Llama: grouped queries, gates and values in one weight, a separate output layer, no biases.
 */
const llama: RunOptions = {
  model: {
    groupQueryAttention: true,
    numQueryGroups: 2,
    swiglu: true,
    disableBiasLinear: true,
    untieEmbeddingsAndOutputWeights: true,
    normalization: 'RMSNorm',
  },
};

const half16: RunOptions = { training: { fp16: true }, optimizer: { initialLossScale: 1024 } };

let runs: TrainingRuns;
beforeAll(async () => {
  runs = await TrainingRuns.create(muon);
  await runs.run(1, [
    { name: 'alone' },
    { name: 'adam', options: { optimizer: { optimizer: 'adam' } } },
    { name: 'alone-llama', options: llama },
    { name: 'alone-bf16', options: { training: { bf16: true } } },
    { name: 'alone-fp16', options: half16 },
    {
      name: 'half',
      options: { training: { exitInterval: 6 }, checkpoint: { saveInterval: 3, asyncSave: true } },
    },
    { name: 'half', options: { checkpoint: { load: runs.locate('half') } } },
  ]);
});
afterAll(() => runs.remove());

function expectSame(name: string, expected: string, precision: 'fp32' | 'bf16' = 'fp32'): void {
  const { loss, norm } = runs.differences(name, expected);
  expect(loss, `loss of ${name}`).toBeLessThan(tolerances[precision].loss);
  expect(norm, `norm of ${name}`).toBeLessThan(tolerances[precision].norm);
}

describe('a GPT trained with Muon', () => {
  it('learns, another way than with AdamW', () => {
    const [own, adam] = [runs.readMetrics('alone'), runs.readMetrics('adam')];
    expect(own[0]).toMatchObject({ lm_loss: adam[0]!.lm_loss });
    expect(own[0]!.lm_loss - own.at(-1)!.lm_loss).toBeGreaterThan(0.5);
    expect(own.at(-1)!.lm_loss).not.toBe(adam.at(-1)!.lm_loss);
  });

  it('resumes bitwise from a checkpoint that was saved in the background', async () => {
    expect(listNumbers(runs.readMetrics('half')).slice(-6)).toEqual(
      listNumbers(runs.readMetrics('alone')).slice(-6),
    );
    const folders = ['alone', 'half'].map((name) => join(runs.locate(name), 'iter_0000012'));
    const [whole, halves] = folders.map((folder) =>
      readdirSync(folder)
        .filter((file) => file.endsWith('.safetensors'))
        .map((file) => readFileSync(join(folder, file))),
    );
    expect(whole!.length).toBeGreaterThan(0);
    expect(halves).toEqual(whole);
    const { tensors } = await Checkpoint.open(folders[0]!);
    const listStates = (name: string): string[] =>
      [...tensors.keys()].filter((key) => key.endsWith(`.${name}`)).map((key) => key.split('.')[1]!);
    expect(listStates('decoder.layers.0.mlp.linear_fc1.weight')).toEqual(['momentum_buffer']);
    expect(listStates('decoder.layers.0.mlp.linear_fc1.bias').sort()).toEqual(['exp_avg', 'exp_avg_sq']);
    expect(listStates('embedding.word_embeddings.weight').sort()).toEqual(['exp_avg', 'exp_avg_sq']);
  });

  it('trains as in one process: 2 ranks', async () => {
    const half = runs.locate('half');
    await runs.run(2, [
      { name: 'tensor', options: tensor },
      { name: 'pipeline', options: pipeline },
      { name: 'data', options: {} },
      { name: 'distributed', options: distributed },
      { name: 'llama', options: mergeOptions(tensor, llama) },
      { name: 'tensor-bf16', options: mergeOptions(tensor, { training: { bf16: true } }) },
      { name: 'tensor-fp16', options: mergeOptions(tensor, half16) },
      { name: 'data-bf16', options: { training: { bf16: true } } },
      { name: 'distributed-bf16', options: mergeOptions(distributed, { training: { bf16: true } }) },
      { name: 'from-half', options: mergeOptions(tensor, { checkpoint: { load: half, checkpointStep: 6 } }) },
    ]);
    for (const name of ['tensor', 'pipeline', 'data', 'distributed']) expectSame(name, 'alone');
    expectSame('llama', 'alone-llama');
    expectSame('tensor-bf16', 'alone-bf16', 'bf16');
    expectSame('tensor-fp16', 'alone-fp16', 'bf16');
    const rest = runs.readMetrics('from-half');
    expect(rest.length).toBe(6);
    runs
      .readMetrics('alone')
      .slice(-6)
      .forEach(({ lm_loss }, index) => {
        expect(Math.abs(rest[index]!.lm_loss / lm_loss - 1)).toBeLessThan(tolerances.fp32.loss);
      });
    expect(listNumbers(runs.readMetrics('distributed'))).toEqual(listNumbers(runs.readMetrics('data')));
    expect(listNumbers(runs.readMetrics('distributed-bf16'))).toEqual(
      listNumbers(runs.readMetrics('data-bf16')),
    );
  });

  it('trains as in one process: 2 x 2 ranks, and goes on from their checkpoint in one', async () => {
    const layout = mergeOptions(tensor, distributed);
    await runs.run(4, [{ name: 'four', options: mergeOptions(layout, { training: { exitInterval: 6 } }) }]);
    await runs.run(1, [{ name: 'four', options: { checkpoint: { load: runs.locate('four') } } }]);
    expectSame('four', 'alone');
  });

  it('trains as in one process where ranks keep slices of gradients, and goes on in one', async () => {
    const stopped: RunOptions = { training: { exitInterval: 6 }, checkpoint: { saveInterval: 6 } };
    await runs.run(2, [
      { name: 'sharded', options: sharded },
      { name: 'sharded-llama', options: mergeOptions(sharded, llama) },
      { name: 'divided', options: dividedGradients },
      { name: 'sharded-half', options: mergeOptions(sharded, stopped) },
      { name: 'sharded-bf16', options: mergeOptions(sharded, { training: { bf16: true } }) },
    ]);
    await runs.run(4, [{ name: 'sharded-four', options: mergeOptions(tensor, sharded) }]);
    await runs.run(1, [
      { name: 'sharded-half', options: { checkpoint: { load: runs.locate('sharded-half') } } },
    ]);
    for (const name of ['sharded', 'divided', 'sharded-half', 'sharded-four']) expectSame(name, 'alone');
    expectSame('sharded-llama', 'alone-llama');
    expectSame('sharded-bf16', 'alone-bf16', 'bf16');
  });

  it('refuses the state of another optimizer', async () => {
    const load = (name: string): RunOptions => ({ checkpoint: { load: runs.locate(name) } });
    await expect(runs.run(1, [{ name: 'mixed', options: load('adam') }])).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_OPTIMIZER',
    });
    const options = mergeOptions({ optimizer: { optimizer: 'adam' } }, load('alone'));
    await expect(runs.run(1, [{ name: 'mixed', options }])).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_OPTIMIZER',
    });
  });
});
