import { basename, dirname } from 'node:path';
import { modelFileNames, tokenizerFiles } from '@mtl/configuration/saved';
import { ConfigurationError, DataError } from '@mtl/errors';
import type { TokenizerFileSource } from '@mtl/formats';
import { exportTokenizer, type TokenizerOptions } from '@mtl/tokenizers';
import { readJsonObject, readTextFile, tokensNextTo } from '@mtl/tokenizers/internal';

/**
 * Returns the tokenizer of a Hugging Face directory, given the paths of its files by name: tokenizer.json,
 * GPT-2's vocab.json and merges.txt, or BERT's vocab.txt with the letter case in tokenizer_config.json.
 * Returns undefined if the directory has none of these files.
 *
 * @throws ConfigurationError MTL_FLAG_REQUIRED for a vocab.txt whose letter case is unknown; DataError
 *   MTL_DATA_TOKENIZER for files that cannot be read, and for added tokens that are missing in the vocabulary
 *   of a directory without tokenizer.json
 */
export function tokenizerOfHuggingFace(
  files: Readonly<Record<string, string>>,
): TokenizerOptions | undefined {
  const tokenizerModel = files['tokenizer.json'];
  if (tokenizerModel !== undefined) return { type: 'HuggingFaceTokenizer', tokenizerModel };
  const [bytePairs, mergeFile] = [files['vocab.json'], files['merges.txt']];
  if (bytePairs !== undefined && mergeFile !== undefined) {
    refuseOtherTokens(bytePairs, Object.keys(readJsonObject(bytePairs)));
    return { type: 'GPT2BPETokenizer', vocabFile: bytePairs, mergeFile };
  }
  const vocabFile = files['vocab.txt'];
  if (vocabFile === undefined) return undefined;
  refuseOtherTokens(vocabFile, readTextFile(vocabFile).split(/\r?\n/));
  const lowers = lowersCase(files['tokenizer_config.json']);
  if (lowers !== undefined) {
    return { type: lowers ? 'BertWordPieceLowerCase' : 'BertWordPieceCase', vocabFile };
  }
  throw new ConfigurationError(
    'MTL_FLAG_REQUIRED',
    `${dirname(vocabFile)} does not say whether its tokenizer tells capital letters apart`,
    {
      expected: 'do_lower_case in tokenizer_config.json, or a tokenizer.json',
      remedy: `pass --tokenizer-type BertWordPieceLowerCase or BertWordPieceCase, with --vocab-file ${vocabFile}`,
    },
  );
}

/**
 * Rejects a directory without tokenizer.json if its other files list tokens that are missing in the
 * vocabulary, because only the vocabulary would be read.
 */
function refuseOtherTokens(vocabulary: string, tokens: readonly string[]): void {
  const known = new Set(tokens);
  const token = [...tokensNextTo(vocabulary)].find((one) => !known.has(one));
  if (token === undefined) return;
  throw new DataError(
    'MTL_DATA_TOKENIZER',
    `${dirname(vocabulary)} has the token ${JSON.stringify(token)} next to ${basename(vocabulary)}, and no tokenizer.json`,
    {
      expected: 'a tokenizer.json, with which tokens of other files are read',
      remedy:
        'load the directory with AutoTokenizer of the transformers library and save it (save_pretrained)',
    },
  );
}

function lowersCase(settings: string | undefined): boolean | undefined {
  if (settings === undefined) return undefined;
  const { do_lower_case: lowers } = readJsonObject(settings);
  return typeof lowers === 'boolean' ? lowers : undefined;
}

/**
 * Returns the tokenizer files for a Hugging Face directory, by their names: paths of existing files, or
 * contents of new files for a built-in tokenizer. A missing tokenizer_config.json is added. Without these
 * files, the transformers library would silently make a tokenizer with a single token. The result is empty
 * for `NullTokenizer`, which has no text.
 *
 * @throws DataError MTL_DATA_TOKENIZER if the tokenizer's files cannot be used
 */
export async function exportedTokenizerFiles(
  options: TokenizerOptions | undefined,
  { maxPositionEmbeddings }: { readonly maxPositionEmbeddings: number },
): Promise<Readonly<Record<string, TokenizerFileSource>>> {
  if (options === undefined) return {};
  // the exported model writes these files itself
  const own = tokenizerFiles(options).filter(({ name }) => !modelFileNames.includes(name));
  const files = Object.fromEntries(own.map(({ name, path }) => [name, path]));
  const written = Object.entries(
    (await exportTokenizer(options, { maxLength: maxPositionEmbeddings })) ?? {},
  );
  return { ...files, ...Object.fromEntries(written.map(([name, contents]) => [name, { contents }])) };
}
