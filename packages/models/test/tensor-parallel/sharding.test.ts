import { allocateParameters, type Parameter } from '@mtl/autograd';
import { SingleProcessGroup } from '@mtl/comm';
import { memoryStatistics } from '@mtl/kernels';
import type { TensorParallel } from '@mtl/tensor-parallel';
import { describe, expect, it } from 'vitest';
import { type GptModelConfiguration, GptStage } from '../../src/index.js';
import { llamaVariants } from '../support/small-llama.js';
import { batchSize, sequenceLength, smallBatch, smallGpt } from './small-gpt.js';

const done = { wait: () => {}, isDone: true };

/** Returns a rank whose partners send nothing: the tensors that it keeps are right, their values are not. */
function alone(rank: number, size: number, sequenceParallel = false): TensorParallel {
  const group = Object.assign(new SingleProcessGroup('alone'), {
    rank,
    size,
    allGather: () => done,
    reduceScatter: () => done,
  });
  return { group, sequenceParallel };
}

function makeStage(model: Partial<GptModelConfiguration>, tensorParallel: TensorParallel): GptStage {
  return new GptStage({
    model: { ...smallGpt, ...model },
    device: 'cpu',
    dtype: 'float32',
    seed: 1,
    tensorParallel,
  });
}

describe('refuses a GPT stage that cannot be sharded evenly, with the nearest sizes that can', () => {
  const refusal = (message: string, expected: string) =>
    expect.objectContaining({ code: 'MTL_TENSOR_PARALLEL_SIZE', message, expected });
  const over4 = (what: string): string => `${what} cannot be divided evenly over 4 tensor-parallel processes`;

  it.each([
    [{ hiddenSize: 30, numAttentionHeads: 6 }, '6 attention heads', '3 or 6 processes, or 4 or 8'],
    [
      { numAttentionHeads: 16, groupQueryAttention: true, numQueryGroups: 2 },
      '2 query groups',
      '2 processes, or 4',
    ],
    [{ ffnHiddenSize: 66 }, '66 feed-forward features', '3 or 6 processes, or 64 or 68'],
    [
      { makeVocabularySizeDivisibleBy: 1, vocabularySize: 91 },
      '91 entries of the padded vocabulary',
      '1 or 7 processes, or 88 or 92',
    ],
  ])('%o', (model, what, nearest) => {
    const things = what.slice(what.indexOf(' '));
    expect(() => makeStage(model, alone(0, 4))).toThrow(refusal(over4(what), `${nearest}${things}`));
  });

  it('a sequence, with sequence parallelism only', () => {
    const batch = { ...smallBatch(), sequenceLength: 6 };
    const refused = refusal(
      over4('6 positions of a sequence'),
      '3 or 6 processes, or 4 or 8 positions of a sequence',
    );
    const stage = makeStage({}, alone(0, 4, true));
    expect(() => stage.boundaryShape(batch)).toThrow(refused);
    expect(() => stage.forward({ microBatch: 0, batch, lossFactors: { lm_loss: 1 } })).toThrow(refused);
    expect(stage.boundaryShape({ ...batch, sequenceLength: 8 })).toEqual([2, 2, 32]);
    expect(makeStage({}, alone(0, 4)).boundaryShape(batch)).toEqual([6, 2, 32]);
  });
});

describe('what a rank holds', () => {
  it('covers every parameter once: contiguous shards, and copies that are declared', () => {
    const size = 4;
    const ranks = Array.from({ length: size }, (_, rank) => makeStage({}, alone(rank, size)).parameters);
    const whole = makeStage({}, alone(0, 1)).parameters;
    whole.forEach((parameter, index) => {
      const own = ranks.map((parameters) => parameters[index]!);
      expect(own.every(({ name }) => name === parameter.name)).toBe(true);
      const held = own.reduce((sum, shard) => sum + shard.size, 0);
      const isCopied = own[0]!.copiedOver.includes('tp');
      expect(held, parameter.name).toBe(isCopied ? size * parameter.size : parameter.size);
      expect(own[0]!.partialOver).toEqual([]);
    });
    const copied = ranks[0]!.filter((parameter) => parameter.copiedOver.includes('tp'));
    // layer norms, row-parallel biases and positions; their gradients are partial sums once the sequence is
    // sharded
    expect(copied.length).toBe(2 * 6 + 2 + 1);
    const partial = makeStage({}, alone(0, size, true)).parameters.filter(({ partialOver }) =>
      partialOver.includes('tp'),
    );
    expect(partial.map(({ name }) => name)).toEqual(copied.map(({ name }) => name));
  });

  it('is the slice of the gates and the slice of the values, which side by side are not the whole weight', () => {
    const size = 2;
    const name = 'decoder.layers.0.mlp.linear_fc1.weight';
    const of = (tensorParallel: TensorParallel): Parameter => {
      const { parameters } = makeStage(llamaVariants, tensorParallel);
      return parameters.find((parameter) => parameter.name === name)!;
    };
    // represents each row of the parameter by its number
    const whole = of(alone(0, 1));
    const rows = Array.from({ length: 2 * llamaVariants.ffnHiddenSize }, (_, row) => row);
    const shards = Array.from({ length: size }, (_, rank) => of(alone(rank, size)));
    const held = shards.map(({ slices: [parts, features] }) =>
      rows.filter((row) => {
        const [part, feature] = [
          Math.floor(row / llamaVariants.ffnHiddenSize),
          row % llamaVariants.ffnHiddenSize,
        ];
        return (
          part >= parts!.start && part < parts!.end && feature >= features!.start && feature < features!.end
        );
      }),
    );
    expect(whole.globalShape).toEqual([2, 40, 32]);
    expect(held[0]!.slice(18, 22)).toEqual([18, 19, 40, 41]);
    expect(held.flat().sort((a, b) => a - b)).toEqual(rows);
    expect(held.flat()).not.toEqual(rows);
  });

  it('keeps its share of activations: those inside the regions, with sequence parallelism those between them too', () => {
    const numLayers = 4;
    const size = 4;
    const kept = (tensorParallel: TensorParallel): number => {
      const stage = makeStage({ numLayers }, tensorParallel);
      const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype: 'float32' });
      const before = memoryStatistics('cpu').bytesInUse;
      stage.forward({ microBatch: 0, batch: smallBatch(), lossFactors: { lm_loss: 1 } });
      const bytes = memoryStatistics('cpu').bytesInUse - before;
      stage.abandon();
      storage.dispose();
      return bytes;
    };
    const [whole, tensor, sequence] = [kept(alone(0, 1)), kept(alone(0, size)), kept(alone(0, size, true))];
    const { hiddenSize: h, ffnHiddenSize: f, numAttentionHeads: a } = smallGpt;
    const bytesPerFeature = batchSize * sequenceLength * 4;
    const saved = (features: number): number => features * bytesPerFeature * (1 - 1 / size);
    // query, key, value, attention's output, the feed-forward network's inside, and a log-sum-exp a head
    expect(whole - tensor).toBe(numLayers * saved(4 * h + f + a));
    // norms keep their inputs: the input of a layer, of its second half, and of the final norm among the row
    // coordinates, only the sample numbers save memory, which comes in multiples of 64 bytes
    const sampleNumbers = batchSize * sequenceLength * 8 - 64;
    expect(tensor - sequence).toBe((2 * numLayers + 1) * saved(h) + sampleNumbers);
  });
});
