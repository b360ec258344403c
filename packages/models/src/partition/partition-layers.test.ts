import { describe, expect, it } from 'vitest';
import type { GptModelConfiguration } from '../gpt/gpt-model.js';
import { gptEmbeddingAndHeadCost } from './embedding-and-head-costs.js';
import { type EmbeddingAndHeadCost, type LayerLayout, partitionLayers } from './partition-layers.js';

const none: EmbeddingAndHeadCost = { embedding: 0, head: 0 };

function numbers(numLayers: number, numChunks: number, layout: LayerLayout, work = none): number[] {
  const slices = partitionLayers({ numLayers, numChunks, layout, work });
  expect(slices[0]!.start).toBe(0);
  expect(slices.map(({ end }) => end)).toEqual([...slices.slice(1).map(({ start }) => start), numLayers]);
  return slices.map(({ start, end }) => end - start);
}

/** Yields all ways to divide the layers over the chunks. Each chunk gets at least one layer. */
function* allWays(numLayers: number, numChunks: number): Generator<number[]> {
  if (numChunks === 1) yield [numLayers];
  else {
    for (let first = 1; first <= numLayers - numChunks + 1; first++) {
      for (const rest of allWays(numLayers - first, numChunks - 1)) yield [first, ...rest];
    }
  }
}

const computeWorks = (counts: readonly number[], { embedding, head }: EmbeddingAndHeadCost): number[] =>
  counts.map(
    (count, chunk) => count + (chunk === 0 ? embedding : 0) + (chunk === counts.length - 1 ? head : 0),
  );

describe('partitionLayers', () => {
  it('puts chunk c of rank r at layer c L/v + r L/(p v), as Narayanan et al. 2021', () => {
    const [p, v, L] = [4, 2, 16];
    const slices = partitionLayers({ numLayers: L, numChunks: p * v, layout: 'even', work: none });
    for (let rank = 0; rank < p; rank++) {
      for (let chunk = 0; chunk < v; chunk++) {
        expect(slices[chunk * p + rank]!.start).toBe(chunk * (L / v) + rank * (L / (p * v)));
      }
    }
  });

  it('takes given numbers', () => {
    expect(numbers(12, 3, [5, 6, 1])).toEqual([5, 6, 1]);
  });

  it.each([
    [12, 2],
    [13, 3],
    [9, 4],
    [8, 8],
    [11, 5],
  ])('balances work as well as any way to deal %d layers out to %d chunks', (numLayers, numChunks) => {
    for (const work of [none, { embedding: 0.1, head: 4.5 }, { embedding: 2, head: 0.5 }]) {
      const balanced = computeWorks(numbers(numLayers, numChunks, 'balanced', work), work);
      const best = [...allWays(numLayers, numChunks)].map((way) => computeWorks(way, work));
      const most = Math.min(...best.map((works) => Math.max(...works)));
      expect(Math.max(...balanced)).toBe(most);
      const squares = (works: number[]): number => works.reduce((sum, each) => sum + each * each, 0);
      const alike = best.filter((works) => Math.max(...works) === most).map(squares);
      // both sides add the same squares, but in a different order
      expect(squares(balanced)).toBeCloseTo(Math.min(...alike), 9);
    }
  });

  it.each<[readonly number[], number]>([
    // dense layers first, as in DeepSeek-V3
    [[0.4, 0.4, 0.4, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2], 3],
    // experts in every second layer
    [[1.6, 0.4, 1.6, 0.4, 1.6, 0.4, 1.6, 0.4], 4],
    [[1.6, 0.4, 1.6, 0.4, 1.6, 0.4, 1.6, 0.4, 1], 2],
    [[0.1, 3, 0.1], 3],
  ])('balances layers of %j in %d chunks as well as any way to deal them out', (layers, numChunks) => {
    for (const ends of [none, { embedding: 0.1, head: 2.5 }]) {
      const computeWorks = (counts: readonly number[]): number[] => {
        let start = 0;
        return counts.map((count, chunk) => {
          const sum = layers.slice(start, start + count).reduce((total, cost) => total + cost, 0);
          start += count;
          return sum + (chunk === 0 ? ends.embedding : 0) + (chunk === numChunks - 1 ? ends.head : 0);
        });
      };
      const ways = [...allWays(layers.length, numChunks)].map(computeWorks);
      const most = Math.min(...ways.map((works) => Math.max(...works)));
      const squares = (works: readonly number[]): number => works.reduce((sum, each) => sum + each * each, 0);
      // both sides add the same costs, but in a different order
      const isBest = (works: readonly number[]): boolean => Math.max(...works) < most + 1e-9;
      const balanced = computeWorks(numbers(layers.length, numChunks, 'balanced', { ...ends, layers }));
      expect(Math.max(...balanced)).toBeCloseTo(most, 9);
      expect(squares(balanced)).toBeCloseTo(Math.min(...ways.filter(isBest).map(squares)), 9);
    }
  });

  it('takes the cost of layers from their experts that a token uses', () => {
    const model = {
      hiddenSize: 64,
      ffnHiddenSize: 128,
      numAttentionHeads: 4,
      vocabularySize: 512,
      numLayers: 4,
      swiglu: true,
      addBiasLinear: false,
      numExperts: 8,
      moeRouterTopk: 2,
      moeFfnHiddenSize: 256,
      moeLayerFreq: [0, 0, 1, 1],
    } as unknown as GptModelConfiguration;
    const { head, layers } = gptEmbeddingAndHeadCost(model, 16);
    // `2 * H * (4 * H + 3 * F)` and `4 * S * H`. In layers with experts, a token uses two experts with width
    // 256
    const countFlops = (width: number): number => 2 * 64 * (4 * 64 + 3 * width) + 4 * 16 * 64;
    const mean = (countFlops(128) + countFlops(512)) / 2;
    expect(head).toBeCloseTo((2 * 512 * 64) / mean, 9);
    const expected = [countFlops(128), countFlops(128), countFlops(512), countFlops(512)];
    expected.forEach((flops, layer) => {
      expect(layers![layer]).toBeCloseTo(flops / mean, 9);
    });
    expect(gptEmbeddingAndHeadCost({ ...model, moeLayerFreq: 1 }, 16).layers).toBeUndefined();
    expect(numbers(4, 2, 'balanced', { embedding: 0, head: 0, layers: layers! })).toEqual([3, 1]);
  });

  it('gives the head of GPT-2 the weight of 4.5 layers, so that its stage has 4 of 12', () => {
    const gpt2 = {
      hiddenSize: 768,
      ffnHiddenSize: 3072,
      numAttentionHeads: 12,
      vocabularySize: 50257,
      numLayers: 12,
    } as GptModelConfiguration;
    const work = gptEmbeddingAndHeadCost(gpt2, 1024);
    expect(work.head).toBeCloseTo(4.46, 2);
    expect(numbers(12, 2, 'balanced', work)).toEqual([8, 4]);
  });

  it.each<[string, number, number, LayerLayout, RegExp]>([
    ['more chunks than layers', 4, 5, 'balanced', /4 layers cannot be split into 5 chunks/],
    ['numbers that are not even', 12, 5, 'even', /12 layers cannot be split evenly into 5 chunks/],
    ['numbers with another sum', 12, 2, [6, 5], /chunks of 6, 5 layers for 12 layers in 2/],
    ['numbers for another pipeline', 12, 3, [6, 6], /12 layers in 3 chunks/],
    ['a chunk without a layer', 12, 3, [6, 6, 0], /12 layers in 3 chunks/],
  ])('refuses %s', (_, numLayers, numChunks, layout, message) => {
    expect(() => partitionLayers({ numLayers, numChunks, layout, work: none })).toThrow(message);
    try {
      partitionLayers({ numLayers, numChunks, layout, work: none });
    } catch (error) {
      expect(error).toMatchObject({ code: 'MTL_PIPELINE_LAYERS', expected: expect.anything() });
    }
  });
});
