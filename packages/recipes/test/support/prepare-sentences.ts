import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { prepareDataset, trainWordPiece, writeVocabularyText } from '@mtl/data';
import { smallSentences } from './small-sentences.js';

/**
 * Writes a small corpus of sentences and its WordPiece vocabulary into a directory; the flags that name them.
 */
export async function prepareSentences(
  directory: string,
  { numSentences = 9 }: { readonly numSentences?: number } = {},
): Promise<readonly string[]> {
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
  return ['--data-path', prefix, '--tokenizer-type', 'BertWordPieceLowerCase', '--vocab-file', vocabFile];
}
