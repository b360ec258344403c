import { configure, type RunOptions } from '@mtl/configuration';
import { expect, it } from 'vitest';
import { datasetFingerprints } from '../src/data-changes/fingerprints.js';
import { openTrainingData } from '../src/parts/data/training-data.js';

/**
 * Sequence length. The made-up documents have 200 million tokens: with sequences as short as in other tests,
 * they would have millions of samples.
 */
const seqLength = 1024;
const run: RunOptions = {
  model: { numLayers: 1, hiddenSize: 32, numAttentionHeads: 2, maxPositionEmbeddings: seqLength },
  training: { microBatchSize: 2, trainIterations: 4, evalIterations: 1 },
  optimizer: { maxLearningRate: 1e-3 },
};

it.each<RunOptions['data']>([
  { tokenizerType: 'NullTokenizer', vocabSize: 128 },
  { tokenizerType: 'ByteLevelTokenizer' },
])('opens made-up data without files, with a $tokenizerType', async (tokenizer) => {
  const configuration = configure({
    ...run,
    data: { sequenceLength: seqLength, mockData: true, ...tokenizer },
  });
  const messages: string[] = [];
  const { datasets, dataPath, ...data } = await openTrainingData(configuration, {
    // a directory that cannot exist: nothing is prepared in it
    corpusDirectory: '/dev/null/corpus',
    onMessage: (text) => void messages.push(text),
  });
  const { train, valid } = datasets;
  expect([train!.length >= 8, valid!.length >= 2]).toEqual([true, true]);
  const { tokens } = train!.sample(0) as unknown as { readonly tokens: Int32Array };
  expect(Math.max(...tokens)).toBeLessThan(data.tokenizer.vocabularySize);
  expect(datasetFingerprints(dataPath)).toEqual([]);
  expect(messages).toEqual([]);
});
