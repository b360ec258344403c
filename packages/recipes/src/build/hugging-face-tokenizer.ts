import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { TokenizerOptions } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';

/**
 * The tokenizer that came with a Hugging Face directory, from its files (name to path): tokenizer.json, a
 * GPT-2's vocab.json and merges.txt, or a BERT's vocab.txt with the letters' case as tokenizer_config.json
 * has it; undefined where there is none of them.
 *
 * @throws ConfigurationError MTL_FLAG_REQUIRED for a vocab.txt of which nothing says whether it has capital
 *   letters
 */
export function huggingFaceTokenizer(files: Readonly<Record<string, string>>): TokenizerOptions | undefined {
  const tokenizerModel = files['tokenizer.json'];
  if (tokenizerModel !== undefined) return { type: 'HuggingFaceTokenizer', tokenizerModel };
  const [bytePairs, mergeFile] = [files['vocab.json'], files['merges.txt']];
  if (bytePairs !== undefined && mergeFile !== undefined) {
    return { type: 'GPT2BPETokenizer', vocabFile: bytePairs, mergeFile };
  }
  const vocabFile = files['vocab.txt'];
  if (vocabFile === undefined) return undefined;
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

function lowersCase(settings: string | undefined): boolean | undefined {
  if (settings === undefined) return undefined;
  const { do_lower_case: lowers } = JSON.parse(readFileSync(settings, 'utf8')) as { do_lower_case?: unknown };
  return typeof lowers === 'boolean' ? lowers : undefined;
}
