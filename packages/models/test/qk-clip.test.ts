import type { ScaledPart } from '@mtl/autograd';
import { numLiveTensors } from '@mtl/kernels';
import { afterAll, describe, expect, it } from 'vitest';
import type { GptModelConfiguration, GptStage } from '../src/index.js';
import { type BuiltModel, buildGpt, computeStep } from './tensor-parallel/small-gpt.js';

const before = numLiveTensors();
afterAll(() => expect(numLiveTensors()).toBe(before));

const model = {
  numAttentionHeads: 4,
  positionEmbeddingType: 'rope',
  rotaryPercent: 0.5,
  attentionDropout: 0,
  hiddenDropout: 0,
} as const satisfies Partial<GptModelConfiguration>;

/** Returns the highest scores of the heads of the first layer in one step. */
function computeHighest(built: BuiltModel<GptStage>): readonly number[] {
  const [scores] = built.stage.headScores;
  scores!.watch();
  computeStep(built, {});
  return scores!.take();
}

describe('the highest scores of heads', () => {
  it('are watched in passes, recomputed or not, and only if they are asked for', () => {
    const plain = buildGpt({ model });
    const recomputed = buildGpt({
      model,
      recomputation: { granularity: 'full', method: 'uniform', numLayers: 1 },
    });
    computeStep(plain, {});
    expect(plain.stage.headScores.map(({ tensor }) => tensor)).toEqual([undefined, undefined]);
    const highest = computeHighest(plain);
    expect(highest).toHaveLength(4);
    expect(highest.every((score) => Number.isFinite(score))).toBe(true);
    expect(computeHighest(recomputed)).toEqual(highest);
    // the watch has ended: evaluations neither pay for the watch nor count in it
    expect(plain.stage.headScores[0]!.tensor).toBeUndefined();
    expect(plain.stage.headScores[0]!.take()).toEqual([]);
    for (const { dispose } of [plain, recomputed]) dispose();
  });

  it.each([0, 0.5, 1])('become the threshold when the weights are scaled, alpha %d', (alpha) => {
    const built = buildGpt({ model });
    const { stage, dispose } = built;
    const biases = stage.parameters.find(({ name }) => name.endsWith('0.self_attention.linear_qkv.bias'))!;
    biases.data.write(Float32Array.from({ length: biases.size }, (_, index) => 0.2 * Math.sin(index)));
    const highest = computeHighest(built);
    const threshold = highest.toSorted((one, other) => one - other)[1]!;
    const factors = highest.map((score) => Math.min(1, threshold / score));
    const parts = stage.headScores[0]!.scaledBy(factors, alpha);
    // two heads are above the threshold
    expect(parts.map(({ parameter }) => parameter.name.split('.').at(-1))).toEqual(
      Array.from({ length: alpha === 0.5 ? 4 : 2 }, () => ['weight', 'bias']).flat(),
    );
    for (const { parameter, start, end, factor } of parts) {
      const values = parameter.data.read<'float32'>();
      parameter.data.write(values.map((value, at) => (at >= start && at < end ? value * factor : value)));
    }
    computeHighest(built).forEach((score, head) => {
      // float32 rounding of sums of 32 products
      expect(Math.abs(score - Math.min(highest[head]!, threshold))).toBeLessThan(1e-6);
    });
    dispose();
  });

  it('of heads that share a key: the key takes the smallest factor of its group', () => {
    const { stage, dispose } = buildGpt({
      model: { ...model, addBiasLinear: false, groupQueryAttention: true, numQueryGroups: 2 },
    });
    const [scores] = stage.headScores;
    const [{ parameter }] = scores!.scaledBy([0.5, 1, 1, 1], 0.5) as [ScaledPart];
    const { name, size } = parameter;
    expect(name).toBe('decoder.layers.0.self_attention.linear_qkv.weight');
    // groups of two queries, a key and a value
    const row = size / 8;
    const placed = scores!.scaledBy([0.25, 1, 0.5, 0.36], 0.5).map(({ start, end, factor }) => {
      expect(end - start).toBe(row);
      return [start / row, factor];
    });
    expect(placed).toEqual([
      [0, 0.5],
      [2, 0.5],
      [4, Math.sqrt(0.5)],
      [5, 0.6],
      [6, 0.6],
    ]);
    dispose();
  });
});
