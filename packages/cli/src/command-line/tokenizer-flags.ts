import {
  type OptionsOf,
  readTokenizerFlags,
  type TokenizerConfiguration,
  type tokenizerFlags,
} from '@mtl/configuration';

/** Values of the options of `tokenizerFlags`. */
export type TokenizerFlagValues = OptionsOf<typeof tokenizerFlags>;

/**
 * The tokenizer that the flags describe; undefined when none is given.
 * @throws ConfigurationError MTL_FLAG_NEEDS
 */
export function tokenizerOfFlags(values: TokenizerFlagValues): TokenizerConfiguration | undefined {
  return readTokenizerFlags({
    'tokenizer-type': values.tokenizerType,
    'tokenizer-model': values.tokenizerModel,
    'vocab-file': values.vocabFile,
    'merge-file': values.mergeFile,
    'vocab-size': values.vocabSize,
  });
}
