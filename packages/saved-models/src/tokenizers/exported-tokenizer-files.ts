import { tokenizerFiles } from '@mtl/configuration';
import { exportTokenizer, type TokenizerOptions } from '@mtl/data';
import type { TokenizerFileSource } from '@mtl/formats';

/**
 * What a Hugging Face directory holds of a tokenizer, by the names of its files: copies of those that it
 * consists of, or files written for one that is built in. Without them the transformers library makes a
 * tokenizer of a single token and says nothing. A tokenizer_config.json is written where none came. Empty for
 * `NullTokenizer`, which has no text.
 *
 * @throws DataError MTL_DATA_TOKENIZER when its files cannot be used
 */
export async function exportedTokenizerFiles(
  options: TokenizerOptions | undefined,
  { maxPositionEmbeddings }: { readonly maxPositionEmbeddings: number },
): Promise<Readonly<Record<string, TokenizerFileSource>>> {
  if (options === undefined) return {};
  const files = Object.fromEntries(tokenizerFiles(options).map(({ name, path }) => [name, path]));
  const written = Object.entries(
    (await exportTokenizer(options, { maxLength: maxPositionEmbeddings })) ?? {},
  );
  return { ...files, ...Object.fromEntries(written.map(([name, contents]) => [name, { contents }])) };
}
