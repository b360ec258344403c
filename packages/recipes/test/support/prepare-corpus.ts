import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { prepareDataset } from '@mtl/data';

/** Writes a small corpus with the bytes as tokens into a directory; the flags that name it. */
export async function prepareCorpus(directory: string): Promise<readonly string[]> {
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
  return ['--data-path', `${outputPrefix}_text_document`, '--tokenizer-type', 'ByteLevelTokenizer'];
}
