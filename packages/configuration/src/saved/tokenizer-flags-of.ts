import type { TokenizerOptions } from '@mtl/data';
import type { Flags } from '../flags/flag-schema.js';

/** The flags that describe a tokenizer. */
export function tokenizerFlagsOf(options: TokenizerOptions): Flags {
  const type = { 'tokenizer-type': options.type };
  switch (options.type) {
    case 'HuggingFaceTokenizer':
      return { ...type, 'tokenizer-model': options.tokenizerModel };
    case 'NullTokenizer':
      return { ...type, 'vocab-size': options.vocabSize };
    case 'BertWordPieceLowerCase':
    case 'BertWordPieceCase':
      return { ...type, 'vocab-file': options.vocabFile };
    case 'GPT2BPETokenizer': {
      const { vocabFile, mergeFile } = options;
      return {
        ...type,
        ...(vocabFile === undefined ? {} : { 'vocab-file': vocabFile }),
        ...(mergeFile === undefined ? {} : { 'merge-file': mergeFile }),
      };
    }
    default:
      return type;
  }
}
