import {
  countedFlops,
  type Device,
  type DType,
  memoryStatistics,
  numLiveTensors,
  resetCountedFlops,
  Tensor,
} from '@mtl/kernels';
import type { TokenBatch } from '@mtl/layout';
import { describe, expect, it } from 'vitest';
import { expectClose, StageUnderTest } from '../../test/support/stage-under-test.js';
import { tinyGpt } from '../../test/support/tiny-gpt.js';
import type { GptModelConfiguration } from './gpt-model.js';
import { GptStage, type GptStageOptions } from './gpt-stage.js';
import { numLossTokens, sequenceFirst } from './token-batch.js';

const model: GptModelConfiguration = {
  ...tinyGpt,
  numLayers: 2,
  hiddenDropout: 0.1,
  attentionDropout: 0.1,
  // weights are large, so that finite differences can detect the gradient of every path
  initMethodStd: 0.3,
};

function makeBatch(samples: readonly number[], sequenceLength = 6): TokenBatch {
  const size = samples.length * sequenceLength;
  // all values depend on the global position, so that batches can be split without changing the values
  const global = (index: number): number => samples[0]! * sequenceLength + index;
  const token = (index: number): number => (index * 7 + 3 * Math.floor(index / sequenceLength)) % 21;
  return sequenceFirst({
    batchSize: samples.length,
    sequenceLength,
    tokens: Int32Array.from({ length: size }, (_, index) => token(global(index))),
    labels: Int32Array.from({ length: size }, (_, index) => token(global(index) + 1)),
    lossMask: Float32Array.from({ length: size }, (_, index) => (global(index) % 5 === 4 ? 0 : 1)),
    positionIds: Int32Array.from({ length: size }, (_, index) => index % sequenceLength),
    sampleNumbers: Float64Array.from(samples),
    keyStart: undefined,
  });
}

function totalLoss(stage: GptStage, microBatch: number): number {
  const [loss] = stage.takeLosses(microBatch);
  const weights = loss!.weights.toArray();
  const total = loss!.losses.toArray().reduce((sum, value, index) => sum + value * weights[index]!, 0);
  loss!.dispose();
  return total;
}

function makeCalls(batches: readonly TokenBatch[]) {
  const lossFactors = { lm_loss: 1 / batches.reduce((sum, batch) => sum + numLossTokens(batch), 0) };
  return batches.map((batch, microBatch) => ({ microBatch, batch, lossFactors }));
}

function build(device: Device, dtype: DType, options: Partial<GptStageOptions> = {}) {
  const stage = new GptStage({ model, device, dtype, seed: 5, ...options });
  return new StageUnderTest({ stage, device, dtype, makeCalls, takeLoss: totalLoss });
}

describe('GptStage', () => {
  it('has gradients that agree with central differences in float64, dropout included', () => {
    const built = build('reference', 'float64');
    built.expectCentralDifferences(makeBatch([11, 12]));
    built.dispose();
  });

  it('gives the same loss and gradients on the CPU kernels as on the reference', () => {
    const [reference, cpu] = [build('reference', 'float64'), build('cpu', 'float32')];
    const expected = reference.computeGradients([makeBatch([3, 4, 5])]);
    const actual = cpu.computeGradients([makeBatch([3, 4, 5])]);
    expect(Math.abs(actual.loss - expected.loss)).toBeLessThan(2e-6);
    // float32 rounding through two layers
    expectClose(actual.gradients, expected.gradients, 1e-5);
    reference.dispose();
    cpu.dispose();
  });

  it('gives the same result however a batch is split into micro-batches', () => {
    const built = build('cpu', 'float32');
    const whole = built.computeGradients([makeBatch([0, 1])]);
    const split = built.computeGradients([makeBatch([0]), makeBatch([1])]);
    expect(Math.abs(whole.loss - split.loss)).toBeLessThan(1e-6);
    expectClose(split.gradients, whole.gradients, 1e-5);
    built.dispose();
  });

  it('splits backward: the input half leaves weight gradients alone, both halves add up bitwise', () => {
    const built = build('cpu', 'float32');
    const { stage } = built;
    const together = built.computeGradients([makeBatch([7, 8])]);
    const apart = built.computeGradients([makeBatch([7, 8])], true);
    expect(apart.loss).toBe(together.loss);
    expect(apart.gradients).toEqual(together.gradients);
    for (const parameter of stage.parameters) parameter.mainGradient.zero();
    stage.forward({ microBatch: 0, batch: makeBatch([7, 8]), lossFactors: { lm_loss: 1 } });
    stage.backwardInput({ microBatch: 0 });
    for (const parameter of stage.parameters) {
      expect(
        parameter.mainGradient.toArray().every((value) => value === 0),
        parameter.name,
      ).toBe(true);
    }
    stage.backwardWeight({ microBatch: 0 });
    expect(stage.parameters[0]!.mainGradient.toArray().some((value) => value !== 0)).toBe(true);
    for (const loss of stage.takeLosses(0)) loss.dispose();
    built.dispose();
  });

  it.each([
    { granularity: 'full', method: 'uniform', numLayers: 1 },
    { granularity: 'full', method: 'uniform', numLayers: 2 },
    { granularity: 'full', method: 'block', numLayers: 1 },
  ] as const)('recomputation changes nothing, bitwise: %o', (recomputation) => {
    const plain = build('cpu', 'float32');
    const recomputed = build('cpu', 'float32', { recomputation });
    for (const split of [false, true]) {
      expect(recomputed.computeGradients([makeBatch([1, 2])], split)).toEqual(
        plain.computeGradients([makeBatch([1, 2])], split),
      );
    }
    plain.dispose();
    recomputed.dispose();
  });

  it.each([
    ['kept activations', {}],
    ['recomputed layers', { recomputation: { granularity: 'full', method: 'uniform', numLayers: 2 } }],
    ['an output layer of its own', { model: { ...model, tieEmbeddings: false } }],
  ] as const)('needs the values of parameters only while their units are used: %s', (_, options) => {
    const built = build('cpu', 'float32', options);
    built.expectUnitsSuffice([makeBatch([1]), makeBatch([2])]);
    built.dispose();
  });

  it('two stages give what one gives, bitwise', () => {
    const whole = build('cpu', 'float32', { model: { ...model, tieEmbeddings: false } });
    const options = { model: { ...model, tieEmbeddings: false } };
    const first = build('cpu', 'float32', { ...options, layers: { start: 0, end: 1 } });
    const last = build('cpu', 'float32', { ...options, layers: { start: 1, end: 2 } });
    const expected = whole.computeGradients([makeBatch([1, 2])]);
    const call = { microBatch: 0, batch: makeBatch([1, 2]) };
    const lossFactors = { lm_loss: 1 / numLossTokens(call.batch) };
    const boundary = first.stage.forward({ ...call, lossFactors })!;
    last.stage.forward({ ...call, lossFactors, input: boundary });
    boundary.dispose();
    const gradient = last.stage.backwardInput({ microBatch: 0, weights: true })!;
    first.stage.backwardInput({ microBatch: 0, outputGradient: gradient, weights: true });
    gradient.dispose();
    expect(totalLoss(last.stage, 0)).toBe(expected.loss);
    const gradients = [...first.stage.parameters, ...last.stage.parameters].map((parameter) =>
      parameter.mainGradient.toArray(),
    );
    expect(gradients).toEqual(expected.gradients);
    for (const built of [whole, first, last]) built.dispose();
  });

  it('keeps no memory of its result once that is passed on', () => {
    const first = build('cpu', 'float32', { layers: { start: 0, end: 1 } });
    const boundary = first.stage.forward({
      microBatch: 0,
      batch: makeBatch([1, 2]),
      lossFactors: { lm_loss: 1 },
    })!;
    const { bytes } = boundary;
    const before = memoryStatistics('cpu').bytesInUse;
    boundary.dispose();
    expect(before - memoryStatistics('cpu').bytesInUse).toBeGreaterThanOrEqual(bytes);
    first.stage.abandon();
    first.dispose();
  });

  it('evaluates without dropout and without keeping anything', () => {
    const built = build('cpu', 'float32', { model: { ...model, hiddenDropout: 0, attentionDropout: 0 } });
    const trained = built.computeGradients([makeBatch([1, 2])]);
    const before = numLiveTensors();
    const batch = makeBatch([1, 2]);
    built.stage.evaluate({ microBatch: 0, batch, lossFactors: { lm_loss: 1 / numLossTokens(batch) } });
    expect(totalLoss(built.stage, 0)).toBe(trained.loss);
    expect(numLiveTensors()).toBe(before);
    built.dispose();
  });

  it('uploads only what passes read of a micro-batch', () => {
    const uploads = (options: Partial<GptModelConfiguration>, layers = { start: 0, end: 2 }): string[] => {
      const built = build('cpu', 'float32', { model: { ...model, ...options }, layers });
      const shapes: string[] = [];
      const loaded = built.stage.load(makeCalls([makeBatch([1, 2])])[0]!, (values, given) => {
        shapes.push(`${given.dtype} ${given.shape.join(' ')}`);
        return Tensor.from(values, given);
      });
      loaded.release();
      built.dispose();
      return shapes;
    };
    const ends = ['int32 6 2', 'int32 6 2', 'int32 6 2', 'float32 6 2', 'int64 2'];
    const rows = ['int32 6 2', 'int64 6 2'];
    expect(uploads({})).toEqual([...ends, ...rows]);
    expect(uploads({ hiddenDropout: 0 })).toEqual(ends);
    const middle = { start: 1, end: 2 };
    expect(uploads({ numLayers: 3, hiddenDropout: 0 }, middle)).toEqual(['int64 2']);
    expect(uploads({ numLayers: 3 }, middle)).toEqual(['int64 2', ...rows]);
  });

  it('counts FLOPs per half: the input and the weight half of the layers cost the same, attention aside', () => {
    const built = build('cpu', 'float32');
    const { stage } = built;
    const measure = (body: () => void): number => {
      resetCountedFlops();
      body();
      return countedFlops();
    };
    const forward = measure(() =>
      stage.forward({ microBatch: 0, batch: makeBatch([1, 2]), lossFactors: { lm_loss: 1 } }),
    );
    const input = measure(() => stage.backwardInput({ microBatch: 0 }));
    const weight = measure(() => stage.backwardWeight({ microBatch: 0 }));
    for (const loss of stage.takeLosses(0)) loss.dispose();
    const { numLayers: l, hiddenSize: h, ffnHiddenSize: f } = model;
    const [tokens, sequence, padded] = [12, 6, 24];
    const matmuls = 2 * tokens * l * (4 * h * h + 2 * h * f);
    const attention = 4 * tokens * sequence * h * l;
    const head = 2 * tokens * h * padded;
    expect(forward).toBe(matmuls + attention);
    expect(input).toBe(matmuls + 2 * attention + 2 * head);
    // the separate pass for weight gradients computes the logits again
    expect(weight).toBe(matmuls + 2 * head);
    built.dispose();
  });

  it('leaks nothing over steps in halves and whole', () => {
    const before = numLiveTensors();
    const built = build('cpu', 'float32');
    const afterSteps = Array.from({ length: 8 }, (_, step) => {
      built.computeGradients([makeBatch([step])], step % 2 === 0);
      return numLiveTensors();
    });
    // the comparison is exact: a tensor leaked in one step would increase the count after the next step
    expect(new Set(afterSteps).size, `${afterSteps}`).toBe(1);
    built.dispose();
    expect(numLiveTensors()).toBe(before);
  });
});
