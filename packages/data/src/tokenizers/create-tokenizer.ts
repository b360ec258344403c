import { ConfigurationError, nearestName } from '@mtl/errors';
import { createBertWordPieceTokenizer } from './bert-word-piece-tokenizer.js';
import { createByteLevelTokenizer } from './byte-level-tokenizer.js';
import { createGpt2BpeTokenizer } from './gpt2-bpe-tokenizer.js';
import { loadHuggingFaceTokenizer } from './hugging-face-tokenizer.js';
import { createNullTokenizer } from './null-tokenizer.js';
import type { Tokenizer } from './tokenizer.js';
import { type TokenizerOptions, tokenizerTypes } from './tokenizer-options.js';

/** Makes a tokenizer; throws a coded error for an unknown type or an unusable file. */
export async function createTokenizer(options: TokenizerOptions): Promise<Tokenizer> {
  switch (options.type) {
    case 'GPT2BPETokenizer':
      return createGpt2BpeTokenizer(options);
    case 'HuggingFaceTokenizer':
      return loadHuggingFaceTokenizer(options);
    case 'BertWordPieceLowerCase':
    case 'BertWordPieceCase':
      return createBertWordPieceTokenizer(options);
    case 'ByteLevelTokenizer':
      return createByteLevelTokenizer(options);
    case 'NullTokenizer':
      return createNullTokenizer(options);
    default: {
      const type = String((options as { type?: unknown }).type);
      const near = nearestName(type, tokenizerTypes);
      throw new ConfigurationError('MTL_DATA_TOKENIZER_TYPE', `unknown type ${type} of tokenizer`, {
        expected: tokenizerTypes.join(', '),
        ...(near === undefined ? {} : { remedy: `use ${near}` }),
      });
    }
  }
}
