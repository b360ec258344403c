import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Copies a BERT of the transformers library into a directory, with a vocabulary of its size. Returns its
 * path.
 */
export function copyBert(directory: string, kind: string): string {
  const copy = join(directory, `bert-${kind}`);
  const own = new URL(`../../../formats/fixtures/huggingface-bert-${kind}`, import.meta.url);
  cpSync(fileURLToPath(own), copy, { recursive: true });
  const config = JSON.parse(readFileSync(join(copy, 'config.json'), 'utf8')) as { vocab_size: number };
  const special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];
  const tokens = Array.from({ length: config.vocab_size }, (_, id) => special[id] ?? `word${id}`);
  writeFileSync(join(copy, 'vocab.txt'), `${tokens.join('\n')}\n`);
  writeFileSync(join(copy, 'tokenizer_config.json'), JSON.stringify({ do_lower_case: true }));
  return copy;
}
