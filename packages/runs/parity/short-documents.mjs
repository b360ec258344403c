import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { prepareDataset } from '@mtl/data';

/**
 * Writes documents of 10 to 40 bytes to a directory, so that a sequence of a parity run contains several
 * documents. Returns the options that name the files.
 */
export async function shortDocuments(directory) {
  const words = ['tokens', 'see', 'keys', 'of', 'their', 'own', 'document', 'alone', 'here', 'and', 'now'];
  const makeDocument = (index) =>
    Array.from(
      { length: 2 + ((index * 5) % 7) },
      (_, at) => words[(index * 3 + at * at) % words.length],
    ).join(' ');
  const lines = Array.from({ length: 4000 }, (_, index) => JSON.stringify({ text: makeDocument(index) }));
  const input = join(directory, 'documents.jsonl');
  writeFileSync(input, `${lines.join('\n')}\n`);
  const outputPrefix = join(directory, 'documents');
  const tokenizer = { type: 'ByteLevelTokenizer' };
  await prepareDataset({ inputs: [input], outputPrefix, tokenizer, appendEod: true, overwrite: true });
  return { data: { dataPath: [`${outputPrefix}_text_document`], tokenizerType: tokenizer.type } };
}
