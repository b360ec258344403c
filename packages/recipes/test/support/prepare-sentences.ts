import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { prepareDataset, trainWordPiece, writeVocabularyText } from '@mtl/data';

/** Sentences whose words tell of each other, in 120 documents of so many. */
function documents(numSentences: number): string[] {
  const animals = ['cat', 'dog', 'hen', 'fox', 'cow'];
  const places = ['mat', 'sofa', 'roof', 'hill', 'barn'];
  const sentence = (index: number): string =>
    `The ${animals[index % 5]} number ${index % 10} sat on the ${places[index % 5]}.`;
  return Array.from({ length: 120 }, (_, document) =>
    Array.from({ length: numSentences }, (_, index) => sentence(document * 7 + index)).join(' '),
  );
}

/** Writes a small corpus of sentences and its WordPiece vocabulary into a directory; the flags that name them. */
export async function prepareSentences(
  directory: string,
  { numSentences = 9 }: { readonly numSentences?: number } = {},
): Promise<readonly string[]> {
  const text = join(directory, 'sentences.txt');
  const vocabFile = join(directory, 'vocab.txt');
  const texts = documents(numSentences);
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
