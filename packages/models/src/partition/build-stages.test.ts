import { describe, expect, it } from 'vitest';
import { tinyGpt } from '../../test/support/tiny-gpt.js';
import type { GptModelConfiguration } from '../gpt/gpt-model.js';
import { buildGptStages } from './build-stages.js';
import { partitionLayers } from './partition-layers.js';

const words = 'embedding.word_embeddings.weight';

function build(placement: readonly number[], rank: number, changes: Partial<GptModelConfiguration> = {}) {
  const layers = partitionLayers({
    numLayers: 4,
    numChunks: placement.length,
    layout: 'even',
    work: { embedding: 0, head: 0 },
  });
  return buildGptStages({
    model: { ...tinyGpt, ...changes },
    layers,
    placement,
    rank,
    device: 'cpu',
    dtype: 'float32',
    seed: 1,
  });
}

describe('buildGptStages', () => {
  it('gives each rank its chunks, and every parameter to a rank', () => {
    const placement = [0, 1, 0, 1];
    const [first, second] = [build(placement, 0), build(placement, 1)];
    expect([...first.stages.keys()]).toEqual([0, 2]);
    expect([...second.stages.keys()]).toEqual([1, 3]);
    expect(second.stages.get(3)!.isLast).toBe(true);
    const names = (ranks: readonly ReturnType<typeof build>[]): Set<string> =>
      new Set(ranks.flatMap(({ parameters }) => parameters.map(({ name }) => name)));
    expect(names([first, second])).toEqual(names([build([0], 0)]));
  });

  it('makes the two copies of a tied embedding count once, with gradients that are parts', () => {
    const [first, second] = [build([0, 1], 0), build([0, 1], 1)];
    for (const { parameters } of [first, second]) {
      const copies = parameters.filter(({ name }) => name === words);
      expect(copies.map(({ placement, partialOver }) => [placement.sharded, partialOver])).toEqual([
        [{ tp: 0 }, ['pp']],
      ]);
    }
    // the forward pass uses the second stage's copy last, so this copy's gradient is ready first
    expect(second.parameters.at(-1)!.name).toBe(words);
    expect(first.parameters[0]!.name).toBe(words);
  });

  it('has one tied embedding where both ends of the model are on one rank', () => {
    const { stages, parameters } = build([0, 1, 1, 0], 0);
    expect(stages.get(0)!.wordEmbedding).toBe(stages.get(3)!.outputWeight);
    const [copy, ...others] = parameters.filter(({ name }) => name === words);
    expect(others).toEqual([]);
    expect(copy!.partialOver).toEqual([]);
    expect(build([0, 1, 1, 0], 1).parameters.some(({ name }) => name === words)).toBe(false);
  });

  it('ties nothing where nothing is tied', () => {
    const { parameters } = build([0, 1], 1, { tieEmbeddings: false });
    expect(parameters.at(-1)!.name).toBe('output_layer.weight');
    expect(parameters.some(({ name }) => name === words)).toBe(false);
    const [first] = build([0, 1], 0, { tieEmbeddings: false }).parameters;
    expect([first!.name, ...first!.partialOver]).toEqual([words]);
  });
});
