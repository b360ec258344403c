import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildBertDatasets, createBatchLoader, parseDataPath, prepareDataset } from '@mtl/data';
import type { MaskedTokenBatch } from '@mtl/layout';
import { BertStage } from '@mtl/models';
import { AdamwOptimizer, createStores } from '@mtl/optimizer';
import { createTokenizer, trainWordPiece, writeVocabularyText } from '@mtl/tokenizers';
import { afterAll, expect, it } from 'vitest';
import { smallSentences } from './support/small-sentences.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-bert-batches-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const [sequenceLength, batchSize, numSteps] = [48, 8, 40];

/** The mean of each kind of loss of a step. */
function trainStep(
  { stage, optimizer }: { stage: BertStage; optimizer: AdamwOptimizer },
  batch: MaskedTokenBatch,
): Record<string, number> {
  const lossFactors = { lm_loss: 1 / batch.numMasked, sop_loss: 1 / batch.batchSize };
  stage.forward({ microBatch: 0, batch, lossFactors });
  optimizer.expectLastBackward();
  stage.backwardInput({ microBatch: 0, weights: true });
  const means = stage.takeLosses(0).map(({ name, losses, weights, dispose }) => {
    const factors = weights.toArray();
    const mean = losses.toArray().reduce((sum, value, index) => sum + value * factors[index]!, 0);
    dispose();
    return [name, mean];
  });
  optimizer.step({ learningRate: 5e-3, lossScale: 1 });
  return Object.fromEntries(means) as Record<string, number>;
}

it('a BERT learns from the batches that @mtl/data makes', async () => {
  const text = join(directory, 'cats.txt');
  const texts = smallSentences({ numDocuments: 60 });
  writeFileSync(text, texts.join('\n\n'));
  const vocabFile = join(directory, 'vocab.txt');
  writeVocabularyText(vocabFile, await trainWordPiece({ texts, vocabularySize: 120 }));
  const options = { type: 'BertWordPieceLowerCase', vocabFile } as const;
  const tokenizer = await createTokenizer(options);
  const { prefix } = await prepareDataset({
    inputs: [text],
    outputPrefix: join(directory, 'cats'),
    tokenizer: options,
    splitSentences: true,
  });
  const { train } = buildBertDatasets({
    blend: parseDataPath([prefix]),
    sequenceLength,
    seed: 3,
    tokenizer,
    numSamples: { train: numSteps * batchSize, valid: 0, test: 0 },
  });
  const loader = createBatchLoader({
    dataset: train!,
    sampler: { kind: 'single', microBatchSize: batchSize },
  });
  const stage = new BertStage({
    model: {
      numLayers: 2,
      hiddenSize: 32,
      ffnHiddenSize: 64,
      numAttentionHeads: 2,
      maxPositionEmbeddings: sequenceLength,
      vocabularySize: tokenizer.vocabularySize,
      makeVocabularySizeDivisibleBy: 128,
      tokenTypeVocabularySize: 2,
      layerNormPlacement: 'pre',
      sentenceOrderHead: true,
      layerNormEpsilon: 1e-5,
      geluKind: 'erf',
      initMethodStd: 0.02,
      hiddenDropout: 0.1,
      attentionDropout: 0.1,
    },
    device: 'cpu',
    dtype: 'float32',
    seed: 3,
  });
  const stores = createStores(stage.parameters, { device: 'cpu', dtype: 'float32', seed: 3 });
  const optimizer = new AdamwOptimizer(stores, {
    beta1: 0.9,
    beta2: 0.99,
    epsilon: 1e-8,
    weightDecay: 0.01,
    clipGrad: 1,
  });
  const steps: Record<string, number>[] = [];
  for await (const batch of loader) {
    steps.push(trainStep({ stage, optimizer }, batch));
    if (steps.length === numSteps) break;
  }
  await loader.close();
  optimizer.dispose();
  const [first, last] = [steps[0]!, steps.at(-1)!];
  // the loss of an untrained model is the logarithm of its vocabulary size, and log 2 for sentence order
  expect(Math.abs(first.lm_loss! - Math.log(tokenizer.vocabularySize))).toBeLessThan(0.3);
  expect(Math.abs(first.sop_loss! - Math.log(2))).toBeLessThan(0.1);
  // measured 4.44 and 1.89: words of these sentences tell of each other
  expect(last.lm_loss!).toBeLessThan(first.lm_loss! - 1);
});
