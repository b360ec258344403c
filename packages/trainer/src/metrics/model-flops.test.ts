import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { modelFlops, modelFlopsText } from './model-flops.js';

const size = fc.integer({ min: 1, max: 4096 });
const sizes = fc.record({
  batchSize: size,
  sequenceLength: size,
  numLayers: size,
  hiddenSize: size,
  vocabSize: size,
});

/** The GPT in the papers, whose feed-forward layer has width 4 * H. */
const makeGpt = ({
  numLayers: L,
  hiddenSize: H,
  vocabSize: V,
  ...rest
}: {
  readonly batchSize: number;
  readonly sequenceLength: number;
  readonly numLayers: number;
  readonly hiddenSize: number;
  readonly vocabSize: number;
}) => ({ ...rest, weights: 12 * L * H ** 2, attentionFeatures: L * H, headWeights: V * H });

describe('modelFlops', () => {
  it("is the papers' formula for their models", () => {
    fc.assert(
      fc.property(sizes, (shape) => {
        const { batchSize: B, sequenceLength: S, numLayers: L, hiddenSize: H, vocabSize: V } = shape;
        const paper = 72 * B * S * L * H ** 2 * (1 + S / (6 * H) + V / (12 * L * H));
        // our value is exact below 2^53; the quotients in the paper's formula round about ten times
        expect(Math.abs(modelFlops(makeGpt(shape)) / paper - 1)).toBeLessThan(1e-14);
      }),
    );
  });

  it.each([
    ['22B', 6144, 48, 4, 8, 1.1, 41.5],
    ['175B', 12288, 96, 64, 64, 13.75, 51.4],
    ['530B', 20480, 105, 280, 280, 37.83, 56.0],
    ['1T', 25600, 128, 512, 512, 71.49, 56.3],
  ])('gives the model FLOPs utilisation that Korthikanti 2022 reports for %s', (...row) => {
    const [, hiddenSize, numLayers, batchSize, gpus, seconds, utilisation] = row;
    const flops = modelFlops(
      makeGpt({ batchSize, sequenceLength: 2048, numLayers, hiddenSize, vocabSize: 51_200 }),
    );
    // Table 5: an A100 has 312 TFLOP/s. The paper prints times with three digits and percentages with one
    // decimal
    expect(Math.abs((100 * flops) / (seconds * gpus * 312e12) - utilisation)).toBeLessThan(0.25);
  });

  it('counts attention by half when asked', () => {
    fc.assert(
      fc.property(sizes, (shape) => {
        const [full, causal] = (['full', 'causal'] as const).map((attention) =>
          modelFlops({ ...makeGpt(shape), attention }),
        ) as [number, number];
        const { batchSize: B, sequenceLength: S, numLayers: L, hiddenSize: H } = shape;
        const half = 6 * B * S * L * S * H;
        // the values are exact below 2^53; above that, the larger terms are rounded
        expect(Math.abs(full - causal - half)).toBeLessThanOrEqual(full * 2 ** -50);
      }),
    );
  });

  const shape = { batchSize: 2, sequenceLength: 3, weights: 100, attentionFeatures: 24, headWeights: 80 };

  it('counts logits of the tokens that have some', () => {
    expect(modelFlops(shape) - modelFlops({ ...shape, headShare: 0.5 })).toBe(2 * 3 * 0.5 * 6 * 80);
  });

  it('counts no weight gradients where adapters are trained, and theirs', () => {
    const adapted = { ...shape, numAdapterParameters: 70 };
    expect(modelFlops(adapted)).toBe(2 * 3 * (4 * 100 + 12 * 3 * 24 + 4 * 80 + 6 * 70));
  });
});

describe('modelFlopsText', () => {
  const shape = { batchSize: 1, sequenceLength: 8, weights: 100, attentionFeatures: 24 };

  it('says what was counted', () => {
    expect(modelFlopsText({ ...shape, headWeights: 80 })).toBe(
      'B S (6 x 100 weights of layers + 12 S x 24 features of queries + 6 x 80 of the head) per iteration, ' +
        'attention counted in full, recomputation not counted',
    );
    expect(modelFlopsText({ ...shape, attention: 'causal' })).toBe(
      'B S (6 x 100 weights of layers + 6 S x 24 features of queries) per iteration, ' +
        'attention counted by half for the causal mask, recomputation not counted',
    );
    expect(modelFlopsText({ ...shape, headWeights: 80, headShare: 0.15, numAdapterParameters: 5 })).toBe(
      'B S (4 x 100 weights of layers + 12 S x 24 features of queries + 4 x 0.15 x 80 of the head + ' +
        '6 x 5 of adapters) per iteration, attention counted in full, padding counted, ' +
        'gradients of adapters counted and not of weights, recomputation not counted',
    );
    expect(modelFlopsText({ ...shape, heldWeights: 700 })).toBe(
      'B S (6 x 100 weights of layers that a token uses + 12 S x 24 features of queries) per iteration, ' +
        'attention counted in full, of the 700 weights of layers, experts that a token does not use are not ' +
        'counted, recomputation not counted',
    );
  });
});
