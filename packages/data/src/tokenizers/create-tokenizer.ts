import { ConfigurationError, nearestName } from '@mtl/errors';
import { createBertWordPieceTokenizer } from './bert-word-piece-tokenizer.js';
import { createByteLevelTokenizer } from './byte-level-tokenizer.js';
import { createGpt2BpeTokenizer } from './gpt2-bpe-tokenizer.js';
import { loadHuggingFaceTokenizer } from './hugging-face-tokenizer.js';
import { createNullTokenizer } from './null-tokenizer.js';
import type { Tokenizer } from './tokenizer.js';

/** The tokenizers that can be made by name: Megatron's `--tokenizer-type`. */
export const tokenizerTypes = [
  'GPT2BPETokenizer',
  'HuggingFaceTokenizer',
  'BertWordPieceLowerCase',
  'BertWordPieceCase',
  'ByteLevelTokenizer',
  'NullTokenizer',
] as const;
export type TokenizerType = (typeof tokenizerTypes)[number];

/** Which tokenizer to make. Plain data: worker threads make their own from it. */
export type TokenizerOptions =
  | {
      readonly type: 'GPT2BPETokenizer';
      /**
       * `vocab.json` and `merges.txt` (both or none); without them the real GPT-2 vocabulary, which is built
       * in.
       */
      readonly vocabFile?: string | undefined;
      readonly mergeFile?: string | undefined;
    }
  | {
      readonly type: 'HuggingFaceTokenizer';
      /** A `tokenizer.json`, or a directory that holds one. */
      readonly tokenizerModel: string;
      /** The token that ends a document, when the files do not say. */
      readonly eodToken?: string | undefined;
    }
  | { readonly type: 'BertWordPieceLowerCase' | 'BertWordPieceCase'; readonly vocabFile: string }
  | { readonly type: 'ByteLevelTokenizer' }
  | { readonly type: 'NullTokenizer'; readonly vocabSize: number };

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
      return createByteLevelTokenizer();
    case 'NullTokenizer':
      return createNullTokenizer(options);
    default: {
      const type = String((options as { type?: unknown }).type);
      const near = nearestName(type, tokenizerTypes);
      throw new ConfigurationError('MTL_DATA_TOKENIZER_TYPE', `unknown --tokenizer-type ${type}`, {
        expected: tokenizerTypes.join(', '),
        ...(near === undefined ? {} : { remedy: `pass --tokenizer-type ${near}` }),
      });
    }
  }
}
