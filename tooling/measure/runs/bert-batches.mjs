import { existsSync, mkdirSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { openBertDataset, prepareDataset } from '@mtl/data';
import { defaultCorpusFiles } from '@mtl/runs/internal';
import { createTokenizer, trainWordPiece, writeTokenizerJson } from '@mtl/tokenizers';

/** The number of word pieces to learn. The model still has bert-base's larger embedding table. */
const vocabularySize = 8192;

/**
 * Opens BERT samples with the same padding as in a training run. `corpus`: a text file whose paragraphs are
 * the documents. Most samples then do not fill their sequence, because paragraphs are short. Default: the
 * bundled corpus of long addresses, which fill all samples except the samples that the mapping shortens at
 * random.
 */
export async function openBertSamples({ directory, sequenceLength, numSamples, corpus }) {
  const files = corpus === undefined ? defaultCorpusFiles() : [corpus];
  const name = corpus === undefined ? 'addresses' : `${basename(corpus)}-${statSync(corpus).size}`;
  mkdirSync(directory, { recursive: true });
  const tokenizerModel = join(directory, `${name}.tokenizer.json`);
  if (!existsSync(tokenizerModel)) {
    async function* texts() {
      for (const file of files) yield await readFile(file, 'utf8');
    }
    writeTokenizerJson(tokenizerModel, await trainWordPiece({ texts: texts(), vocabularySize }));
  }
  const tokenizer = { type: 'HuggingFaceTokenizer', tokenizerModel };
  const outputPrefix = join(directory, name);
  const prefix = `${outputPrefix}_text_sentence`;
  if (!existsSync(`${prefix}.idx`)) {
    const textDocuments = corpus === undefined ? 'file' : 'paragraph';
    await prepareDataset({ inputs: files, outputPrefix, tokenizer, textDocuments, splitSentences: true });
  }
  return openBertDataset({
    prefix,
    split: 'train',
    sequenceLength,
    numSamples,
    seed: 1234,
    cacheDirectory: false,
    tokenizer: await createTokenizer(tokenizer),
  });
}

/** Returns the samples [start, start + batchSize) as a micro-batch. */
export function readBatch(dataset, { start, batchSize }) {
  const batch = dataset.createBatch(batchSize);
  for (let row = 0; row < batchSize; row++) dataset.fillRow({ sample: start + row, batch, row });
  return dataset.finishBatch(batch);
}
