import { type MetaOperation, MetaWorld } from '@mtl/comm';
import { memoryStatistics, resetPeakMemory, Tensor } from '@mtl/kernels';
import { buildGptStages, type Recomputation, type TokenBatch } from '@mtl/models';
import { Adamw, createStores, ModelOptimizer, type StoreName } from '@mtl/optimizer';
import { describe, expect, it } from 'vitest';

const [numLayers, hiddenSize, vocabularySize, numRanks] = [6, 256, 512, 2];
// few rows: activations are small next to the parameters of a layer
const [batchSize, sequenceLength, numMicroBatches] = [1, 2, 3];
const ids = Int32Array.of(1, 2);
const batch: TokenBatch = {
  batchSize,
  sequenceLength,
  tokens: ids,
  labels: ids,
  keyStart: undefined,
  lossMask: new Float32Array(2).fill(1),
  positionIds: Int32Array.of(0, 1),
  sampleNumbers: new Float64Array(1),
};

/** Rounds bytes up to a block of the allocator: an eighth of their power of two. */
const inBlocks = (bytes: number): number => {
  const unit = 2 ** Math.floor(Math.log2(bytes)) / 8;
  return Math.ceil(bytes / unit) * unit;
};
const bytesOfLayer = 4 * (12 * hiddenSize ** 2 + 13 * hiddenSize);
/** The table of tokens, the table of positions, the last norm: each is used in other units. */
const bytesOfRoot = [vocabularySize, sequenceLength, 2].map((rows) => 4 * rows * hiddenSize);
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Runs the micro-batches of a step on one of two ranks; the other does not exist. */
function runStep(recomputation: Recomputation, kind: StoreName = 'fullySharded') {
  const operations: MetaOperation[] = [];
  const world = new MetaWorld({
    rank: 1,
    size: numRanks,
    onOperation: (operation) => operations.push(operation),
  });
  const groups = { dp: world.group, world: world.group };
  const { stages, parameters, units } = buildGptStages({
    model: {
      numLayers,
      hiddenSize,
      vocabularySize,
      tieEmbeddings: true,
      ffnHiddenSize: 4 * hiddenSize,
      numAttentionHeads: 4,
      maxPositionEmbeddings: sequenceLength,
      makeVocabularySizeDivisibleBy: 128,
      layerNormEpsilon: 1e-5,
      hiddenDropout: 0,
      attentionDropout: 0,
      initMethodStd: 0.02,
      geluKind: 'tanh',
    },
    layers: [{ start: 0, end: numLayers }],
    placement: [0],
    rank: 0,
    recomputation,
    dtype: 'float32',
    seed: 1,
    device: 'meta',
  });
  const before = memoryStatistics('meta').bytesInUse;
  const stores = createStores(parameters, {
    kind,
    device: 'meta',
    dtype: 'float32',
    groups,
    units,
  });
  const optimizer = new ModelOptimizer(stores, { optimizer: new Adamw(), groups });
  const states = memoryStatistics('meta').bytesInUse - before;
  resetPeakMemory('meta');
  const stage = stages.get(0)!;
  const peaks: Record<'forward' | 'backward', number> = { forward: 0, backward: 0 };
  for (let microBatch = 0; microBatch < numMicroBatches; microBatch++) {
    resetPeakMemory('meta');
    stage.forward({ microBatch, batch, lossFactors: { lm_loss: 1 } });
    peaks.forward = Math.max(peaks.forward, memoryStatistics('meta').peakBytes - before - states);
    resetPeakMemory('meta');
    stage.backwardInput({ microBatch, weights: true });
    peaks.backward = Math.max(peaks.backward, memoryStatistics('meta').peakBytes - before - states);
    for (const loss of stage.takeLosses(microBatch)) loss.dispose();
  }
  using gradientNorm = Tensor.empty({ shape: [1], dtype: 'float64', device: 'meta' });
  optimizer.launchStep({ learningRate: 1e-3, gradientNorm });
  const kept = memoryStatistics('meta').bytesInUse - before - states;
  optimizer.dispose();
  stage.dispose();
  const count = (wanted: string, bytes: number): number =>
    operations.filter(({ operation, bytes: own }) => operation === wanted && own === bytes).length;
  return { peaks, states, kept, count, operations };
}

const full = { granularity: 'full', method: 'uniform', numLayers: 1 } as const;

describe.each<[string, Recomputation]>([
  ['without recomputation', { granularity: 'none' }],
  ['with full recomputation', full],
])('fully sharded parameters %s', (_, recomputation) => {
  it('have two layers and the root in memory, and the gradients of two layers and the root', () => {
    const { peaks, states, kept } = runStep(recomputation);
    const all = numLayers * bytesOfLayer + sum(bytesOfRoot);
    // values, gradients and two moments; each tensor is up to an eighth larger in blocks of the allocator
    expect(states).toBeGreaterThanOrEqual((4 * all) / numRanks);
    expect(states).toBeLessThan((1.125 * (4 * all)) / numRanks);
    const root = sum(bytesOfRoot.map(inBlocks));
    const values = 2 * inBlocks(bytesOfLayer) + root;
    // activations and the scratch memory of operations
    const { peaks: others } = runStep(recomputation, 'replicated');
    expect(peaks.forward).toBeGreaterThanOrEqual(values);
    // the gradients of the embedding of the micro-batch before are still reduced
    expect(peaks.forward).toBeLessThanOrEqual(values + root + others.forward);
    expect(peaks.backward).toBeGreaterThanOrEqual(2 * values - root);
    expect(peaks.backward).toBeLessThanOrEqual(2 * values + others.backward);
    // no unit is kept after an update
    expect(kept).toBeLessThan(0.01 * bytesOfLayer);
  });

  it('are gathered twice and reduced once for each micro-batch, and not again where they are there', () => {
    const { count } = runStep(recomputation);
    const [shard, whole] = [bytesOfLayer / numRanks, bytesOfLayer];
    expect(count('reduceScatter', whole)).toBe(numMicroBatches * numLayers);
    // the last two layers are still there when backward begins, the first two when the next forward begins
    const numSaved = 2 * numMicroBatches + 2 * (numMicroBatches - 1);
    expect(count('allGather', shard)).toBe(2 * numMicroBatches * numLayers - numSaved);
  });
});

describe('divided gradients', () => {
  it('have two layers and the root in memory, next to whole values', () => {
    const { peaks, states, count } = runStep({ granularity: 'none' }, 'zero2');
    const all = numLayers * bytesOfLayer + sum(bytesOfRoot);
    // values, and slices of gradients and two moments; each tensor is up to an eighth larger in blocks
    expect(states).toBeGreaterThanOrEqual(all + (3 * all) / numRanks);
    expect(states).toBeLessThan(1.125 * (all + (3 * all) / numRanks));
    const { peaks: others } = runStep({ granularity: 'none' }, 'replicated');
    const root = sum(bytesOfRoot.map(inBlocks));
    // the gradients of the embedding of the micro-batch before are still reduced
    expect(peaks.forward).toBeLessThanOrEqual(root + others.forward);
    expect(peaks.backward).toBeGreaterThanOrEqual(2 * inBlocks(bytesOfLayer));
    expect(peaks.backward).toBeLessThanOrEqual(2 * inBlocks(bytesOfLayer) + root + others.backward);
    expect(count('reduceScatter', bytesOfLayer)).toBe(numMicroBatches * numLayers);
    // updated values are gathered once in a step
    expect(count('allGather', bytesOfLayer / numRanks)).toBe(numLayers);
  });
});
