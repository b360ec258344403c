import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { modelFlops, modelFlopsFormula } from './model-flops.js';

const size = fc.integer({ min: 1, max: 4096 });
const shapes = fc.record({
  batchSize: size,
  sequenceLength: size,
  numLayers: size,
  hiddenSize: size,
  vocabSize: size,
});

describe('modelFlops', () => {
  it("is the papers' formula when the feed-forward layer is 4H wide", () => {
    fc.assert(
      fc.property(shapes, (shape) => {
        const { batchSize: B, sequenceLength: S, numLayers: L, hiddenSize: H, vocabSize: V } = shape;
        const paper = 72 * B * S * L * H ** 2 * (1 + S / (6 * H) + V / (12 * L * H));
        const ours = modelFlops({ ...shape, ffnHiddenSize: 4 * H });
        // Ours is exact while below 2^53, the quotients of the paper's form round some ten times.
        expect(Math.abs(ours / paper - 1)).toBeLessThan(1e-14);
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
    const flops = modelFlops({
      batchSize,
      sequenceLength: 2048,
      numLayers,
      hiddenSize,
      ffnHiddenSize: 4 * hiddenSize,
      vocabSize: 51_200,
    });
    // Table 5: an A100 has 312 TFLOP/s; times are printed with three digits and per cents with one decimal.
    expect(Math.abs((100 * flops) / (seconds * gpus * 312e12) - utilisation)).toBeLessThan(0.25);
  });

  it('counts attention by half when asked', () => {
    fc.assert(
      fc.property(shapes, (shape) => {
        const full = modelFlops({ ...shape, ffnHiddenSize: 7 });
        const causal = modelFlops({ ...shape, ffnHiddenSize: 7, attention: 'causal' });
        const { batchSize: B, sequenceLength: S, numLayers: L, hiddenSize: H } = shape;
        const half = 6 * B * S * L * S * H;
        // Exact below 2^53, a rounding of the larger terms above.
        expect(Math.abs(full - causal - half)).toBeLessThanOrEqual(full * 2 ** -50);
      }),
    );
  });

  it('counts projections of groups and a gate', () => {
    const shape = { batchSize: 1, sequenceLength: 3, numLayers: 2, hiddenSize: 8, ffnHiddenSize: 20 };
    const flops = modelFlops({
      ...shape,
      vocabSize: 10,
      attentionSize: 12,
      keyValueSize: 4,
      isGated: true,
    });
    const layer = 6 * (2 * 8 * 12 + 2 * 8 * 4 + 3 * 8 * 20) + 12 * 3 * 12;
    expect(flops).toBe(3 * (2 * layer + 6 * 8 * 10));
    expect(modelFlopsFormula({ ...shape, attentionSize: 12, keyValueSize: 4, isGated: true })).toContain(
      'B S (L (12 H (12 + 4) + 18 H F + 12 S 12) + 6 H V)',
    );
  });

  it('counts logits of the tokens that have some', () => {
    const shape = { batchSize: 1, sequenceLength: 1, numLayers: 1, hiddenSize: 2, vocabSize: 3 };
    const half = modelFlops({ ...shape, ffnHiddenSize: 5, headShare: 0.5 });
    expect(modelFlops({ ...shape, ffnHiddenSize: 5 }) - half).toBe(0.5 * 6 * 2 * 3);
  });

  it('counts no weight gradients where adapters are trained, and theirs', () => {
    const shape = { batchSize: 1, sequenceLength: 3, numLayers: 2, hiddenSize: 8, ffnHiddenSize: 20 };
    const adapted = { ...shape, attentionSize: 12, keyValueSize: 4, isGated: true, numAdapterParameters: 70 };
    const layer = 4 * (2 * 8 * 12 + 2 * 8 * 4 + 3 * 8 * 20) + 12 * 3 * 12;
    expect(modelFlops({ ...adapted, vocabSize: 10 })).toBe(3 * (2 * layer + 4 * 8 * 10 + 6 * 70));
    expect(modelFlopsFormula(adapted)).toBe(
      'B S (L (8 H (12 + 4) + 12 H F + 12 S 12) + 4 H V + 6 x 70) per iteration, attention counted in full, ' +
        'gradients of adapters counted and not of weights, recomputation not counted',
    );
    expect(modelFlopsFormula({ hiddenSize: 8, ffnHiddenSize: 32, numAdapterParameters: 5 })).toContain(
      'B S (L (16 H^2 + 8 H F + 12 S H) + 4 H V + 6 x 5)',
    );
  });

  it('follows the width of the feed-forward layer', () => {
    const shape = { batchSize: 1, sequenceLength: 1, numLayers: 1, hiddenSize: 2, vocabSize: 3 };
    expect(modelFlops({ ...shape, ffnHiddenSize: 5 })).toBe(24 * 4 + 12 * 2 * 5 + 12 * 2 + 6 * 2 * 3);
  });
});

describe('modelFlopsFormula', () => {
  it('names the formula that was used', () => {
    expect(modelFlopsFormula({ hiddenSize: 8, ffnHiddenSize: 32 })).toBe(
      '72 B S L H^2 (1 + S/6H + V/12LH) per iteration, attention counted in full, recomputation not counted',
    );
    expect(modelFlopsFormula({ hiddenSize: 8, ffnHiddenSize: 32, attention: 'causal' })).toMatch(
      /S\/12H.*by half for the causal mask/,
    );
    expect(modelFlopsFormula({ hiddenSize: 8, ffnHiddenSize: 32, headShare: 0.15 })).toContain(
      'S/6H + 0.15 V/12LH) per iteration, attention counted in full, padding counted, recomputation',
    );
    expect(modelFlopsFormula({ hiddenSize: 8, ffnHiddenSize: 24, headShare: 0.15 })).toContain('6 H 0.15 V');
    expect(modelFlopsFormula({ hiddenSize: 8, ffnHiddenSize: 24 })).toMatch(/12 H F \+ 12 S H/);
  });
});
