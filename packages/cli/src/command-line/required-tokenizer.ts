import type { Tokenizer } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import type { LoadedGpt } from '@mtl/saved-models';

/** The tokenizer of a model. @throws ConfigurationError MTL_TOKENIZER_MISSING when it came without one */
export function requiredTokenizer({ tokenizer, path }: Pick<LoadedGpt, 'tokenizer' | 'path'>): Tokenizer {
  if (tokenizer !== undefined) return tokenizer;
  throw new ConfigurationError('MTL_TOKENIZER_MISSING', `no tokenizer came with ${path}`, {
    expected: 'tokenizer.json, or vocab.json and merges.txt, in the folder of the weights',
    remedy: 'pass --tokenizer-type GPT2BPETokenizer, or HuggingFaceTokenizer with --tokenizer-model',
  });
}
