import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunOptions } from '@mtl/configuration';
import { prepareDataset } from '@mtl/data';

/** Writes a small corpus with the bytes as tokens into a directory; returns the options that name it. */
export async function preparedCorpus(directory: string): Promise<RunOptions> {
  const lines = Array.from(
    { length: 400 },
    (_, line) => `Line ${line} says ${(line * 7919) % 1000} and ends.`,
  );
  writeFileSync(join(directory, 'corpus.txt'), lines.join('\n\n'));
  const outputPrefix = join(directory, 'corpus');
  await prepareDataset({
    inputs: [join(directory, 'corpus.txt')],
    outputPrefix,
    tokenizer: { type: 'ByteLevelTokenizer' },
    appendEod: true,
  });
  return { data: { dataPath: [`${outputPrefix}_text_document`], tokenizerType: 'ByteLevelTokenizer' } };
}
