import type { ByteLevelBpe } from './byte-level-bpe-json.js';
import { endOfText } from './gpt2-vocabulary.js';
import { readJsonFile, readTextFile } from './read-json-file.js';

/** Reads `vocab.json` and `merges.txt`. Throws `MTL_DATA_TOKENIZER` when they cannot be read. */
export function readGpt2Files(files: {
  readonly vocabFile: string;
  readonly mergeFile: string;
}): ByteLevelBpe {
  // What is in it is checked with the whole tokenizer.
  const vocab = readJsonFile(files.vocabFile) as Readonly<Record<string, number>>;
  const lines = readTextFile(files.mergeFile).split(/\r?\n/);
  const merges = lines.filter((line, i) => line !== '' && !(i === 0 && line.startsWith('#version')));
  const id = (vocab as typeof vocab | null)?.[endOfText];
  return {
    vocab,
    merges,
    endOfText: id === undefined ? undefined : { id, content: endOfText },
    splitsWords: true,
  };
}
