import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Checkpoint, hostTensor, type JsonObject, saveCheckpoint } from '@mtl/checkpoint';
import { afterAll, describe, expect, it } from 'vitest';
import { openGptWeights } from '../inference/open-gpt-weights.js';
import { checkSameModel } from './check-saved.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-sizes-'));
afterAll(() => rmSync(directory, { recursive: true }));
const progress = { iteration: 1, consumedSamples: 8, consumedTokens: 64 };
const state = {
  progress,
  optimizerSteps: 1,
  lossScaler: { scale: 1, growthTracker: 0, hysteresisTracker: 0 },
};
// 2 layers with 12 * 4^2 values in matrices, and embeddings with 24 rows of 4 values
const model = {
  numLayers: 2,
  hiddenSize: 4,
  ffnHiddenSize: 16,
  numAttentionHeads: 2,
  maxPositionEmbeddings: 8,
  vocabularySize: 15,
  makeVocabularySizeDivisibleBy: 16,
};
const sixExperts = { ffnHiddenSize: 4, numExperts: 6, moeRouterTopk: 6, moeFfnHiddenSize: 4 };
const numValues = 2 * 12 * 16 + 24 * 4;

let saved = 0;

/** Makes a checkpoint that has a fixed number of values but records the sizes of a changed model. */
async function save(change: object, key = 'gptModel') {
  const path = join(directory, String(saved++));
  const memory = new Uint8Array(4 * numValues);
  // the optimizer's moments do not count as values in the model
  const tensors = ['weight', 'optimizer.exp_avg.weight'].map((name) =>
    hostTensor({ name, dtype: 'F32', globalShape: [numValues], memory }),
  );
  const configuration = { [key]: { ...model, ...change } };
  return await saveCheckpoint({
    directory: path,
    iteration: 1,
    tensors,
    state: { ...state, configuration } as JsonObject,
  }).then((result) => ({ load: path, path: result.path }));
}

const refused = (message: RegExp) => ({
  code: 'MTL_CHECKPOINT_STATE',
  exitCode: 2,
  message: expect.stringMatching(message),
});

describe('the sizes that a checkpoint remembers', () => {
  it.for<[change: object, message: RegExp]>([
    [{ numLayers: 2 ** 31 }, /names a model of more than 412,316,860,512 parameters \(2147483648 layers, /],
    [{ hiddenSize: 2 ** 20 }, /hidden size 1048576/],
    [{ ffnHiddenSize: 17 }, /more than 496 parameters .*MLP 17/],
    [{ maxPositionEmbeddings: 9 }, /9 positions/],
    [{ vocabularySize: 17 }, /vocabulary 32/],
    [{ makeVocabularySizeDivisibleBy: 2 ** 40 }, /vocabulary 1099511627776/],
    [{ numLayers: 0 }, /names a model of numLayers 0$/],
    [{ numAttentionHeads: 1.5 }, /names a model of numAttentionHeads 1\.5$/],
    [{ ffnHiddenSize: '16' }, /names a model of ffnHiddenSize "16"$/],
  ])('are compared with its values: %j', async ([change, message]) => {
    const { load, path } = await save(change);
    await expect(openGptWeights({ load, onNotice: () => {} })).rejects.toMatchObject(refused(message));
    const checkpoint = await Checkpoint.open(path);
    const own = { ...model, layerNormEpsilon: 1e-5, geluKind: 'tanh' } as never;
    expect(() => checkSameModel(checkpoint, { kind: 'gpt', model: own })).toThrow(message);
  });

  it.each<[string, object, boolean]>([
    // an expert of width 4 has 2 * 4 * 4 values in matrices, and attention has 64 values; routers are not
    // counted
    ['more experts than it holds', { numExperts: 8, moeFfnHiddenSize: 4 }, false],
    ['the number that it holds', { numExperts: 3, moeFfnHiddenSize: 4 }, true],
    ['numbers for which lists of experts fill memory', { numExperts: 2 ** 31, moeFfnHiddenSize: 4 }, false],
    // the layer without experts has 96 values; if both layers had experts, they would need more values than
    // the checkpoint has
    ['experts in the first layer alone', { ...sixExperts, moeLayerFreq: 2 }, true],
    ['experts in the second layer alone', { ...sixExperts, moeLayerFreq: [0, 1] }, true],
    ['too many in one layer', { ...sixExperts, numExperts: 8, moeLayerFreq: [0, 1] }, false],
    ['too many layers', { ...sixExperts, moeLayerFreq: [1, 1] }, false],
  ])('count all experts that it has, used or not: %s', async (_, change, isRight) => {
    const { path } = await save(change);
    const checkpoint = await Checkpoint.open(path);
    const own = { ...model, ...change } as never;
    const check = () => checkSameModel(checkpoint, { kind: 'gpt', model: own });
    if (isRight) expect(check).not.toThrow();
    else expect(check).toThrow(/names a model of more than .* experts, /);
  });

  it.each([
    ['as of before there were other blocks', {}],
    ['without learned positions', { positionEmbeddingType: 'rope', maxPositionEmbeddings: 2 ** 17 }],
    ['with fewer keys', { groupQueryAttention: true, numQueryGroups: 1, ffnHiddenSize: 18 }],
    ['with small heads', { kvChannels: 1, ffnHiddenSize: 20 }],
  ])('may fit the values: %s', async (_, change) => {
    const { path } = await save(change);
    const checkpoint = await Checkpoint.open(path);
    const own = { ...model, ...change } as never;
    expect(() => checkSameModel(checkpoint, { kind: 'gpt', model: own })).not.toThrow();
  });

  it('may belong to a BERT, which has no sizes of other blocks', async () => {
    const { path } = await save({}, 'bertModel');
    const checkpoint = await Checkpoint.open(path);
    expect(() => checkSameModel(checkpoint, { kind: 'bert', model: model as never })).not.toThrow();
  });
});
