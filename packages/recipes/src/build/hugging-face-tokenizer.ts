import { readFile } from 'node:fs/promises';
import type { TokenizerOptions } from '@mtl/data';

/**
 * The tokenizer that came with a Hugging Face directory, from its files (name to path): tokenizer.json, or a BERT's vocab.txt
 * with the letters' case as tokenizer_config.json has it; undefined where there is none of them.
 */
export async function huggingFaceTokenizer(
  files: Readonly<Record<string, string>>,
): Promise<TokenizerOptions | undefined> {
  const tokenizerModel = files['tokenizer.json'];
  if (tokenizerModel !== undefined) return { type: 'HuggingFaceTokenizer', tokenizerModel };
  const vocabFile = files['vocab.txt'];
  if (vocabFile === undefined) return undefined;
  const settings = files['tokenizer_config.json'];
  const { do_lower_case: lowerCase = true } =
    settings === undefined
      ? {}
      : (JSON.parse(await readFile(settings, 'utf8')) as { readonly do_lower_case?: boolean });
  return { type: lowerCase ? 'BertWordPieceLowerCase' : 'BertWordPieceCase', vocabFile };
}
