import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { MtlError } from '@mtl/errors';
import { createTokenizer, type Tokenizer } from '@mtl/tokenizers';

/** Texts with words, numbers, spaces, punctuation and scripts that tokenizers treat differently. */
const probes = [
  "Hello, world! It's 1234 or  12,5\n\n\tdon't",
  'Café ΑΒΓ 中文 😀 x=(y+1);',
  ' leading',
  'UPPER lower',
];

/**
 * Compares the model's tokenizer with the tokenizer that transformers' AutoTokenizer loads from an exported
 * Hugging Face directory. For some values of `model_type`, transformers builds the components itself,
 * regardless of the contents of tokenizer.json.
 *
 * @returns a notice if the tokenizers differ; undefined if they match, or if the directory has no tokenizer
 */
export async function exportedTokenizerNotice(
  directory: string,
  tokenizer: Tokenizer | undefined,
): Promise<string | undefined> {
  if (tokenizer === undefined || !existsSync(join(directory, 'tokenizer.json'))) return undefined;
  const problem = await findDifference(directory, tokenizer);
  if (problem === undefined) return undefined;
  return (
    `AutoTokenizer of the transformers library ${problem}, with the tokenizer in ${directory}; ` +
    `load it with PreTrainedTokenizerFast.from_pretrained`
  );
}

async function findDifference(directory: string, tokenizer: Tokenizer): Promise<string | undefined> {
  try {
    const read = await createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel: directory });
    const differing = probes.find((text) => {
      const own = findIds(tokenizer, text);
      return own !== undefined && own.join() !== findIds(read, text)?.join();
    });
    return differing === undefined
      ? undefined
      : `makes other ids, of ${JSON.stringify(differing)} for example`;
  } catch (error) {
    if (MtlError.isInstance(error)) return `may make other ids (${error.message})`;
    throw error;
  }
}

/** Returns the ids of `text`; undefined if a part of it has no ids. */
function findIds(tokenizer: Tokenizer, text: string): readonly number[] | undefined {
  try {
    return Array.from(tokenizer.encode(text));
  } catch (error) {
    if (MtlError.isInstance(error)) return undefined;
    throw error;
  }
}
