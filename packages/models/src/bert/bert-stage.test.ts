import {
  countedFlops,
  type Device,
  type DType,
  numLiveTensors,
  resetCountedFlops,
  Tensor,
} from '@mtl/kernels';
import type { MaskedTokenBatch } from '@mtl/layout';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expectClose, StageUnderTest } from '../../test/support/stage-under-test.js';
import type { BertStageOptions } from './bert-encoder-stage.js';
import { type BertModelConfiguration, numBertParameters } from './bert-model.js';
import { BertStage } from './bert-stage.js';

const model: BertModelConfiguration = {
  numLayers: 2,
  hiddenSize: 16,
  ffnHiddenSize: 32,
  numAttentionHeads: 2,
  maxPositionEmbeddings: 8,
  vocabularySize: 21,
  makeVocabularySizeDivisibleBy: 8,
  layerNormEpsilon: 1e-5,
  geluKind: 'erf',
  hiddenDropout: 0.1,
  attentionDropout: 0.1,
  // large weights, so that finite differences can see the gradient of every path
  initMethodStd: 0.3,
  tokenTypeVocabularySize: 2,
  layerNormPlacement: 'pre',
  sentenceOrderHead: true,
};

/**
 * Returns the given samples of a global batch. All values depend only on the sample's index in the global
 * batch, so that batches can be split.
 */
function makeBatch(samples: readonly number[], { room = 2 * samples.length + 1 } = {}): MaskedTokenBatch {
  const [batchSize, sequenceLength] = [samples.length, 7];
  const at = (value: (sample: number, position: number) => number): Int32Array =>
    Int32Array.from({ length: batchSize * sequenceLength }, (_, index) =>
      value(samples[index % batchSize]!, Math.floor(index / batchSize)),
    );
  const lengths = Int32Array.from(samples, (sample) => sequenceLength - (sample % 3));
  // masks the second token of every row, and the last token of every second row
  const masked = samples.flatMap((sample, row) => [
    batchSize + row,
    ...(sample % 2 === 0 ? [(lengths[row]! - 1) * batchSize + row] : []),
  ]);
  const unused = new Array<number>(room - masked.length).fill(0);
  return {
    batchSize,
    sequenceLength,
    lengths,
    tokens: at((sample, position) => (sample * 5 + position * 7) % 21),
    tokenTypes: at((_, position) => (position < 3 ? 0 : 1)),
    maskedPositions: Int32Array.from([...masked, ...unused]),
    maskedLabels: Int32Array.from([
      ...masked.map((flat) => (samples[flat % batchSize]! * 3 + Math.floor(flat / batchSize)) % 21),
      ...unused,
    ]),
    maskedWeights: Float32Array.from([...masked.map(() => 1), ...unused]),
    numMasked: masked.length,
    sentenceOrderLabels: Int32Array.from(samples, (sample) => sample % 2),
    sampleNumbers: Float64Array.from(samples),
  };
}

/**
 * Returns the losses of a micro-batch by name. Each is the sum of its elements, multiplied by their factors.
 */
function takeLosses(stage: BertStage, microBatch: number): Record<string, number> {
  const sums = stage.takeLosses(microBatch).map(({ name, losses, weights, dispose }) => {
    const factors = weights.toArray();
    const sum = losses.toArray().reduce((total, value, index) => total + value * factors[index]!, 0);
    dispose();
    return [name, sum];
  });
  return Object.fromEntries(sums) as Record<string, number>;
}

const computeFactors = (batches: readonly MaskedTokenBatch[]) => ({
  lossFactors: {
    lm_loss: 1 / batches.reduce((sum, { numMasked }) => sum + numMasked, 0),
    sop_loss: 1 / batches.reduce((sum, { batchSize }) => sum + batchSize, 0),
  },
});

const makeCalls = (batches: readonly MaskedTokenBatch[]) =>
  batches.map((batch, microBatch) => ({ microBatch, batch, ...computeFactors(batches) }));

function build(device: Device, dtype: DType, options: Partial<BertStageOptions> = {}) {
  return new StageUnderTest({
    stage: new BertStage({ model, device, dtype, seed: 5, ...options }),
    device,
    dtype,
    makeCalls,
    takeLoss: (stage, microBatch) =>
      Object.values(takeLosses(stage, microBatch)).reduce((sum, value) => sum + value, 0),
  });
}

let live: number;
beforeEach(() => {
  live = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(live));

const rotary = { positionEmbeddingType: 'rope', rotaryInterleaved: true } as const;

describe.each([
  ['layer norm before sublayers', { layerNormPlacement: 'pre' }],
  ['layer norm after sublayers', { layerNormPlacement: 'post' }],
  ['rotary positions', { layerNormPlacement: 'post', ...rotary }],
] as const)('BertStage with %s', (_, variant) => {
  const placed = { model: { ...model, ...variant } };

  it('has gradients that agree with central differences in float64, dropout included', () => {
    const built = build('reference', 'float64', placed);
    built.expectCentralDifferences(makeBatch([11, 12, 13]));
    built.dispose();
  });

  it('gives the same losses and gradients on the CPU kernels as on the reference', () => {
    const [reference, cpu] = [build('reference', 'float64', placed), build('cpu', 'float32', placed)];
    const batches = [makeBatch([3, 4, 5])];
    const expected = reference.computeGradients(batches);
    const actual = cpu.computeGradients(batches);
    // the bound is relative, as in the design's limits for parallel layouts; float32 rounding errors
    // accumulate over two layers
    expect(Math.abs(actual.loss / expected.loss - 1)).toBeLessThan(2e-6);
    expectClose(actual.gradients, expected.gradients, 1e-5);
    reference.dispose();
    cpu.dispose();
  });

  it('gives the same result however a batch is split, and however much room masks have', () => {
    const built = build('cpu', 'float32', placed);
    const whole = built.computeGradients([makeBatch([0, 1, 2])]);
    for (const batches of [[makeBatch([0]), makeBatch([1, 2])], [makeBatch([0, 1, 2], { room: 20 })]]) {
      const split = built.computeGradients(batches);
      expect(Math.abs(whole.loss / split.loss - 1)).toBeLessThan(2e-6);
      // sums in another order
      expectClose(split.gradients, whole.gradients, 1e-5);
    }
    built.dispose();
  });

  it('splits backward and recomputes layers without a bit changed', () => {
    const built = build('cpu', 'float32', placed);
    const together = built.computeGradients([makeBatch([7, 8])]);
    expect(built.computeGradients([makeBatch([7, 8])], true)).toEqual(together);
    const recomputation = { granularity: 'full', method: 'uniform', numLayers: 1 } as const;
    const recomputed = build('cpu', 'float32', { ...placed, recomputation });
    expect(recomputed.computeGradients([makeBatch([7, 8])])).toEqual(together);
    built.dispose();
    recomputed.dispose();
  });

  it('needs the values of parameters only while their units are used', () => {
    const built = build('cpu', 'float32', placed);
    const predicted = built.stage.predict(makeBatch([5]));
    built.expectUnitsSuffice([makeBatch([3]), makeBatch([4])]);
    expect(built.stage.predict(makeBatch([5]))).toEqual(predicted);
    built.dispose();
  });

  it.each([2, 3])('%i stages give what one gives: the tied embedding is the sum of both', (numStages) => {
    const staged = { model: { ...placed.model, numLayers: numStages } };
    const whole = build('cpu', 'float32', staged);
    const stages = Array.from({ length: numStages }, (_, start) =>
      build('cpu', 'float32', { ...staged, layers: { start, end: start + 1 } }),
    );
    const batch = makeBatch([1, 2]);
    const expected = whole.computeGradients([batch]);
    for (const { stage } of stages) for (const { mainGradient } of stage.parameters) mainGradient.zero();
    const call = { microBatch: 0, batch, ...computeFactors([batch]) };
    let input: Tensor | undefined;
    for (const { stage } of stages) {
      const boundary = stage.forward({ ...call, input });
      input?.dispose();
      if (boundary !== undefined) expect(boundary.shape).toEqual(stage.boundaryShape(batch));
      input = boundary;
    }
    let outputGradient: Tensor | undefined;
    for (const { stage } of stages.toReversed()) {
      const gradient = stage.backwardInput({ microBatch: 0, outputGradient, weights: true });
      outputGradient?.dispose();
      outputGradient = gradient;
    }
    const losses = takeLosses(stages.at(-1)!.stage, 0);
    expect(losses.lm_loss! + losses.sop_loss!).toBe(expected.loss);
    const sums = new Map<string, number[]>();
    for (const { name, mainGradient } of stages.flatMap(({ stage }) => stage.parameters)) {
      const values = mainGradient.toArray();
      sums.set(name, sums.get(name)?.map((value, index) => value + values[index]!) ?? values);
    }
    const names = whole.stage.parameters.map(({ name }) => name);
    expect([...sums.keys()].sort()).toEqual([...names].sort());
    expectClose(
      names.map((name) => sums.get(name)!),
      expected.gradients,
      // the two parts of the tied embedding are added in a different order
      1e-6,
    );
    for (const built of [whole, ...stages]) built.dispose();
  });

  it('has the number of parameters that is counted', () => {
    for (const sentenceOrderHead of [true, false]) {
      const configuration = { ...placed.model, sentenceOrderHead };
      const { parameters } = new BertStage({
        model: configuration,
        device: 'cpu',
        dtype: 'float32',
        seed: 1,
      });
      const counted = parameters.reduce((sum, { size }) => sum + size, 0);
      expect(numBertParameters(configuration)).toBe(counted);
    }
  });
});

describe('BertStage', () => {
  it('neither learns from padding nor depends on the tokens there', () => {
    const built = build('cpu', 'float32');
    const batch = makeBatch([4, 5]);
    const { batchSize, lengths } = batch;
    const isPadding = (index: number): boolean =>
      Math.floor(index / batchSize) >= lengths[index % batchSize]!;
    const other = { ...batch, tokens: batch.tokens.map((token, index) => (isPadding(index) ? 20 : token)) };
    expect(other.tokens).not.toEqual(batch.tokens);
    const [expected, actual] = [built.computeGradients([batch]), built.computeGradients([other])];
    expect(actual).toEqual(expected);
    built.dispose();
  });

  it('computes nothing for padding, however much there is', () => {
    const built = build('cpu', 'float32');
    const batch = makeBatch([4, 5, 6]);
    // the same samples, padded to a sequence that is four times as long
    const sequenceLength = 4 * batch.sequenceLength;
    const lengthened = (values: Int32Array): Int32Array => {
      const result = new Int32Array(sequenceLength * batch.batchSize).fill(20);
      result.set(values);
      return result;
    };
    const long = {
      ...batch,
      sequenceLength,
      tokens: lengthened(batch.tokens),
      tokenTypes: lengthened(batch.tokenTypes).map((type) => Math.min(type, 1)),
    };
    const tokens = batch.lengths.reduce((sum, length) => sum + length, 0);
    expect(tokens).toBe(18);
    for (const one of [batch, long])
      expect(built.stage.boundaryShape(one)).toEqual([one === batch ? 21 : 24, 1, 16]);
    const countFlops = (one: MaskedTokenBatch) => {
      resetCountedFlops();
      const result = built.computeGradients([one]);
      return { flops: countedFlops(), ...result };
    };
    const [expected, actual] = [countFlops(batch), countFlops(long)];
    // the longer padding takes 24 rows instead of 21, but not 84; heads and attention cost the same
    expect(actual.flops / expected.flops).toBeLessThan(24 / 21);
    expect(Math.abs(actual.loss / expected.loss - 1)).toBeLessThan(2e-6);
    // matmuls of other sizes
    expectClose(actual.gradients, expected.gradients, 1e-5);
    built.dispose();
  });

  it('evaluates without dropout, to the losses by their kinds', () => {
    const built = build('cpu', 'float32');
    const batch = makeBatch([1, 2]);
    const call = { microBatch: 0, batch, ...computeFactors([batch]) };
    built.stage.evaluate(call);
    const first = takeLosses(built.stage, 0);
    built.stage.evaluate({ ...call, batch: { ...batch, sampleNumbers: Float64Array.of(8, 9) } });
    expect(takeLosses(built.stage, 0)).toEqual(first);
    expect(Object.keys(first)).toEqual(['lm_loss', 'sop_loss']);
    // two classes, untrained: around the logarithm of 2
    expect(first.sop_loss).toBeLessThan(2);
    built.dispose();
  });

  it('has one loss without the sentence-order head', () => {
    const built = build('cpu', 'float32', { model: { ...model, sentenceOrderHead: false } });
    const batch = { ...makeBatch([1, 2]), sentenceOrderLabels: undefined };
    built.stage.evaluate({ microBatch: 0, batch, lossFactors: { lm_loss: 1 / batch.numMasked } });
    expect(Object.keys(takeLosses(built.stage, 0))).toEqual(['lm_loss']);
    built.dispose();
  });

  it.each([
    ['a batch without pairs', { sentenceOrderLabels: undefined }, { sop_loss: 1 }, 'sentenceOrderLabels'],
    ['no factor of samples', {}, {}, 'no factor for the loss sop_loss'],
  ])('refuses %s for a model with that head', (_, change, factors, message) => {
    const built = build('cpu', 'float32');
    const call = {
      microBatch: 0,
      batch: { ...makeBatch([1, 2]), ...change },
      lossFactors: { lm_loss: 1, ...factors },
    };
    expect(() => built.stage.forward(call)).toThrow(
      expect.objectContaining({ code: 'MTL_STAGE', message: expect.stringContaining(message) as string }),
    );
    built.stage.abandon();
    built.dispose();
  });

  it('leaks nothing over steps in halves and whole', () => {
    const built = build('cpu', 'float32');
    const afterSteps = Array.from({ length: 8 }, (_, step) => {
      built.computeGradients([makeBatch([step])], step % 2 === 0);
      return numLiveTensors();
    });
    // must be exactly equal: a tensor leaked in one step would raise the count after the next step
    expect(new Set(afterSteps).size, `${afterSteps}`).toBe(1);
    built.dispose();
  });

  it('loads batches for passes that are launched again: all differences are uploaded or in the variant', () => {
    const built = build('cpu', 'float32');
    const padded = (sequenceLength: number): MaskedTokenBatch => {
      const [batchSize, one] = [2, new Int32Array(2 * sequenceLength)];
      return {
        ...makeBatch([0, 1]),
        batchSize,
        sequenceLength,
        tokens: one,
        tokenTypes: one,
        lengths: Int32Array.of(5, 4),
      };
    };
    const load = (batch: MaskedTokenBatch) => {
      const shapes: string[] = [];
      const factors = computeFactors([batch]);
      const loaded = built.stage.load({ batch, ...factors }, (values, options) => {
        shapes.push(`${options.dtype} ${options.shape.join(' ')}`);
        return Tensor.from(values, options);
      });
      loaded.release();
      return { shapes: shapes.join(), variant: loaded.variant };
    };
    const [short, long] = [load(padded(8)), load(padded(9))];
    // 9 tokens take 16 rows with either padding; only the bound on the length of a sample differs
    expect(long.shapes).toBe(short.shapes);
    const variants = [8, 9].map((rows) => `samples of at most ${rows} rows`);
    expect([short.variant, long.variant]).toEqual(variants);
    const other = load({ ...padded(8), lengths: Int32Array.of(8, 1) });
    expect(other).toEqual(short);
    built.dispose();
  });
});
