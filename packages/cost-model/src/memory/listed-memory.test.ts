import { describe, expect, it } from 'vitest';
import { loadProfile } from '../open-profile.js';
import type { ModelSize } from '../operations/model-size.js';
import { listedProfile } from '../profiles/profile.js';
import { type Layout, scheduleOfLayout } from '../step/layout.js';
import { listedMemory } from './listed-memory.js';

const profile = listedProfile(loadProfile('a100-80gb-megatron'));

/**
 * Memory in GiB from figure 1 of Korthikanti et al. 2022: states; activations; and activations with sequence
 * parallelism and selective recomputation.
 */
const figure1 = [
  { name: '22B', sizes: [48, 6144, 64], layout: [8, 1, 1, 4, 4], gib: [45.56, 59.25, 9.56] },
  { name: '175B', sizes: [96, 12_288, 96], layout: [8, 8, 3, 1, 64], gib: [45.56, 66.84, 12.35] },
  { name: '530B', sizes: [105, 20_480, 128], layout: [8, 35, 3, 1, 280], gib: [31.64, 114.02, 23.08] },
  { name: '1T', sizes: [128, 25_600, 160], layout: [8, 64, 1, 1, 512], gib: [32.96, 131.25, 26.56] },
] as const;

function computeMemory(
  { sizes, layout: [t, p, v, b, batch] }: (typeof figure1)[number],
  change: Partial<Layout> = {},
): ReturnType<typeof listedMemory> {
  const [numLayers, hiddenSize, numHeads] = sizes;
  const model = { numLayers, hiddenSize, numHeads, sequenceLength: 2048, vocabularySize: 51_200 };
  const layout: Layout = {
    tp: t,
    pp: p,
    dp: 1,
    numChunks: v,
    microBatchSize: b,
    globalBatchSize: batch,
    recomputation: 'none',
    ...change,
  };
  return listedMemory({ model, layout, profile }, scheduleOfLayout(layout));
}

const error = (bytes: number, gib: number): number => Math.abs(bytes / 2 ** 30 / gib - 1);

describe('listedMemory', () => {
  it.each(figure1)('agrees with figure 1 within 5 %%: $name', (row) => {
    const [states, baseline, better] = row.gib;
    const plain = computeMemory(row);
    // the figure counts no embedding, so a middle stage without embedding is compared
    const { parameters, gradients, optimizer } = plain[Math.min(1, plain.length - 1)]!;
    expect(error(parameters + gradients + optimizer, states)).toBeLessThan(0.05);
    expect(error(plain[0]!.activations, baseline)).toBeLessThan(0.05);
    const selective = computeMemory(row, { sequenceParallel: true, recomputation: 'selective' });
    expect(error(selective[0]!.activations, better)).toBeLessThan(0.05);
  });

  it('keeps the inputs of layers with full recomputation, and the optimizer in parts', () => {
    const [, row] = figure1;
    const full = computeMemory(row, { recomputation: 'full' });
    // `2 * s * b * h` for each of 4 layers in 31 chunks in flight, and for the dropout of the embedding
    expect(full[0]!.activations).toBe(31 * (4 * 2 + 1) * 2048 * 12_288);
    expect(full[0]!.temporary).toBeGreaterThan(0);
    const software = { ...profile.software, distributedOptimizer: true };
    const layout: Layout = { ...layoutOfOne, dp: 4, globalBatchSize: 4 };
    const options = { model: tiny, layout, profile: { ...profile, software } };
    const [shared] = listedMemory(options, scheduleOfLayout(layout));
    expect(shared!.optimizer).toBe((12 / 2 / 4) * shared!.parameters);
  });
});

describe('listedMemory of other models', () => {
  const memoryOfOne = (change: Partial<ModelSize>) =>
    listedMemory(
      { model: { ...tiny, ...change }, layout: layoutOfOne, profile },
      scheduleOfLayout(layoutOfOne),
    )[0]!;
  const [tokens, h] = [tiny.sequenceLength, tiny.hiddenSize];
  const gpt = memoryOfOne({});

  it('counts fewer keys and values, and the feed-forward network as wide as it is', () => {
    // 2 bytes for each key and value that is saved, in two layers
    const groups = memoryOfOne({ numQueryGroups: 1 });
    expect(gpt.activations - groups.activations).toBe(2 * 2 * tokens * 2 * (3 / 4) * h);
    expect(gpt.parameters - groups.parameters).toBe(2 * 2 * (h + 1) * 2 * (3 / 4) * h);
    // the larger input and output of GELU
    const wide = memoryOfOne({ ffnHiddenSize: 5 * h });
    expect(wide.activations - gpt.activations).toBe(2 * 4 * tokens * h);
    expect(wide.parameters - gpt.parameters).toBe(2 * 2 * (2 * h + 1) * h);
    // Llama keeps gate, up and their product instead of the input and output of GELU
    const llama = memoryOfOne({ block: 'llama' });
    expect(llama.activations - gpt.activations).toBe(2 * 2 * tokens * 4 * h);
  });

  it('counts parts of everything, and two gathered layers, where ranks keep parts of parameters', () => {
    const layout: Layout = { ...layoutOfOne, dp: 4, globalBatchSize: 4 };
    const software = { ...profile.software, shardsParameters: true };
    const options = { model: tiny, layout, profile: { ...profile, software } };
    const [sharded] = listedMemory(options, scheduleOfLayout(layout));
    const { activations, temporary, ...states } = gpt;
    for (const [name, bytes] of Object.entries(states))
      expect(sharded, name).toMatchObject({ [name]: bytes / 4 });
    expect(sharded!.activations).toBe(activations);
    // 2 bytes for each of the `12 * h^2` weights and `13 * h` biases and norm parameters of a gathered layer
    expect(sharded!.temporary - temporary).toBe(2 * 2 * (12 * h * h + 13 * h));
  });

  it('counts an output head of its own, and positions that have embeddings', () => {
    const table = 2 * tiny.vocabularySize * h;
    expect(memoryOfOne({ tiedEmbeddings: false }).parameters - gpt.parameters).toBe(table);
    expect(gpt.parameters - memoryOfOne({ positionEmbeddings: false }).parameters).toBe(2 * tokens * h);
    const llama = memoryOfOne({ block: 'llama' });
    expect(llama.parameters - memoryOfOne({ block: 'llama', tiedEmbeddings: true }).parameters).toBe(table);
  });
});

const tiny = { numLayers: 2, hiddenSize: 64, numHeads: 4, sequenceLength: 32, vocabularySize: 128 };
const layoutOfOne: Layout = {
  tp: 1,
  pp: 1,
  dp: 1,
  microBatchSize: 1,
  globalBatchSize: 1,
  recomputation: 'none',
};
