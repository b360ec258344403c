import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunOptions } from '@mtl/configuration';
import { prepareDataset } from '@mtl/data';
import { trainWordPiece, writeVocabularyText } from '@mtl/tokenizers';
import { smallSentences } from './small-sentences.js';

/**
 * Writes a small corpus of sentences and its WordPiece vocabulary into a directory; returns the options that
 * name them.
 */
export async function preparedSentences(
  directory: string,
  { numSentences = 9 }: { readonly numSentences?: number } = {},
): Promise<RunOptions> {
  const text = join(directory, 'sentences.txt');
  const vocabFile = join(directory, 'vocab.txt');
  const texts = smallSentences({ numSentences });
  writeFileSync(text, texts.join('\n\n'));
  writeVocabularyText(vocabFile, await trainWordPiece({ texts, vocabularySize: 100 }));
  const { prefix } = await prepareDataset({
    inputs: [text],
    outputPrefix: join(directory, 'sentences'),
    tokenizer: { type: 'BertWordPieceLowerCase', vocabFile },
    splitSentences: true,
  });
  return { data: { dataPath: [prefix], tokenizerType: 'BertWordPieceLowerCase', vocabFile } };
}
