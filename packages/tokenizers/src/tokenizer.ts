import { UsageError } from '@mtl/errors';
import type { EncodedText } from './word-piece.js';

/** Converts text to token ids and back. */
export interface Tokenizer {
  /** The tokenizer's name in Megatron's `--tokenizer-type`. */
  readonly name: string;
  /** The number of ids, without padding. The largest id is `vocabularySize - 1`. */
  readonly vocabularySize: number;
  /** The id of the token that ends a document. */
  readonly eod: number;
  /** The id of the padding token, if there is one. */
  readonly padId?: number | undefined;
  /**
   * The ids of the special tokens at the start of a separate text, such as a prompt; absent if there are
   * none.
   */
  readonly startIds?: readonly number[] | undefined;
  /**
   * A map from tokens, including special tokens, to ids, if the tokenizer has a list of tokens. Masking needs
   * this map.
   */
  readonly tokenIds?: ReadonlyMap<string, number> | undefined;
  /**
   * The special tokens as strings, by name (`bos_token`, `eos_token` and so on), if the tokenizer's files
   * contain them.
   */
  readonly specialTokens?: Readonly<Record<string, string>> | undefined;
  /**
   * The ids of all special tokens, if the tokenizer has a list of tokens. If absent, the end-of-document
   * token is the only special token.
   */
  readonly specialIds?: ReadonlySet<number> | undefined;
  /** Values that identify this tokenizer in the md5 hashes of cached indices. */
  readonly identifiers: TokenizerIdentifiers;
  /**
   * Options with which `createTokenizer` makes an equal tokenizer in a worker thread; undefined if this is
   * not possible.
   */
  readonly options: TokenizerOptions | undefined;
  /** Returns the ids of `text`, without adding special tokens. */
  encode(text: string): Int32Array | number[];
  /**
   * Returns the same ids as `encode`, each with its range in the text (in UTF-16 code units). Only BERT's
   * WordPiece has this function, which reading comprehension needs.
   */
  readonly encodeWithOffsets?: ((text: string) => EncodedText) | undefined;
  /**
   * Returns the text for `ids`, such as ids that `IndexedDataset.sequence` returned. Special tokens appear in
   * the text.
   *
   * @param ids integers; in datasets of int64, they are bigint
   */
  decode(ids: ArrayLike<number | bigint>): string;
}

/** A JSON value that identifies a tokenizer in the md5 hashes of cached indices. */
export type TokenizerIdentifiers =
  | null
  | boolean
  | number
  | string
  | readonly TokenizerIdentifiers[]
  | { readonly [key: string]: TokenizerIdentifiers };

/** The names of tokenizers, as in Megatron's `--tokenizer-type`. */
export const tokenizerTypes = [
  'GPT2BPETokenizer',
  'HuggingFaceTokenizer',
  'BertWordPieceLowerCase',
  'BertWordPieceCase',
  'ByteLevelTokenizer',
  'NullTokenizer',
] as const;

/** A tokenizer described as plain data, from which worker threads can make equal tokenizers. */
export type TokenizerOptions =
  | {
      readonly type: 'GPT2BPETokenizer';
      /**
       * The path of `vocab.json`. Either both `vocabFile` and `mergeFile` (the path of `merges.txt`) or
       * neither must be given. Without them, GPT-2's built-in vocabulary is used.
       */
      readonly vocabFile?: string | undefined;
      readonly mergeFile?: string | undefined;
      /** The path of a Jinja chat template. No template is read from the directory of the vocabulary. */
      readonly chatTemplate?: string | undefined;
    }
  | {
      readonly type: 'HuggingFaceTokenizer';
      /** The path of a `tokenizer.json`, or of a directory that contains one. */
      readonly tokenizerModel: string;
      /** The token that ends a document, if the files do not name it. */
      readonly eodToken?: string | undefined;
      /** The path of a Jinja chat template, which replaces the template in the directory of the file. */
      readonly chatTemplate?: string | undefined;
    }
  | { readonly type: 'BertWordPieceLowerCase' | 'BertWordPieceCase'; readonly vocabFile: string }
  | { readonly type: 'ByteLevelTokenizer'; readonly chatTemplate?: string | undefined }
  | { readonly type: 'NullTokenizer'; readonly vocabSize: number };

/**
 * Rejects ids that a tokenizer does not have, for example because a different tokenizer made them. Without
 * this check, such ids would be silently missing in the text. Returns the ids as numbers.
 *
 * @throws UsageError MTL_DATA_TOKEN_OUT_OF_VOCABULARY
 */
export function checkIds(ids: ArrayLike<number | bigint>, vocabularySize: number): number[] {
  const numbers = Array.from(ids, Number);
  for (const [index, id] of numbers.entries()) {
    if (Number.isInteger(id) && id >= 0 && id < vocabularySize) continue;
    throw new UsageError(
      'MTL_DATA_TOKEN_OUT_OF_VOCABULARY',
      `token id ${id} (number ${index} of the text) does not exist`,
      {
        expected: `0 to ${vocabularySize - 1}`,
        remedy: 'decode with the tokenizer that the ids come from',
      },
    );
  }
  return numbers;
}
