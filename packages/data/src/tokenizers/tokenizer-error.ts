import { DataError } from '@mtl/errors';

/** The error of a tokenizer file that is missing, malformed or contradicts itself. */
export function tokenizerError(
  path: string,
  what: string,
  options: { expected?: string; remedy?: string; cause?: unknown } = {},
): DataError {
  return new DataError('MTL_DATA_TOKENIZER', `${path}: ${what}`, {
    remedy: 'save the tokenizer again with the Hugging Face libraries, or train one with trainByteLevelBpe',
    details: { path },
    ...options,
  });
}
