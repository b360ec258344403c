import { UsageError } from '@mtl/errors';
import type { EncodedText } from './word-piece.js';

/** Converts text to token ids and back. */
export interface Tokenizer {
  /** The tokenizer's name in Megatron's `--tokenizer-type`. */
  readonly name: string;
  /** Number of ids, without padding: the largest id is `vocabularySize - 1`. */
  readonly vocabularySize: number;
  /** The id of the token that ends a document. */
  readonly eod: number;
  /** The id of the padding token, if there is one. */
  readonly padId?: number | undefined;
  /** Ids of special tokens at the start of a separate text, such as a prompt; absent if there are none. */
  readonly startIds?: readonly number[] | undefined;
  /** Ids by token, with special tokens, if the tokenizer has a list of tokens. Masking needs it. */
  readonly tokenIds?: ReadonlyMap<string, number> | undefined;
  /**
   * Texts of special tokens by name (`bos_token`, `eos_token` and so on), if the tokenizer's files have them.
   */
  readonly specialTokens?: Readonly<Record<string, string>> | undefined;
  /**
   * Ids of special tokens, if the tokenizer has a list of tokens. Absent: the end-of-document token is the
   * only one.
   */
  readonly specialIds?: ReadonlySet<number> | undefined;
  /** Values that identify this tokenizer in the md5 hashes of cached indices. */
  readonly identifiers: TokenizerIdentifiers;
  /**
   * Options with which `createTokenizer` makes an equal tokenizer in a worker thread; undefined if this is
   * not possible.
   */
  readonly options: TokenizerOptions | undefined;
  /** Returns the ids of a text, without adding special tokens. */
  encode(text: string): Int32Array | number[];
  /**
   * Returns the ids of a text like `encode`, each with its range in the text (in UTF-16 units). Only BERT's
   * WordPiece has this function, which reading comprehension needs.
   */
  readonly encodeWithOffsets?: ((text: string) => EncodedText) | undefined;
  /**
   * Returns the text of ids, such as ids that `IndexedDataset.sequence` returned. Special tokens become their
   * texts.
   *
   * @param ids integers; bigint in datasets of int64
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

/** A description of a tokenizer as plain data, from which worker threads can make equal tokenizers. */
export type TokenizerOptions =
  | {
      readonly type: 'GPT2BPETokenizer';
      /**
       * Paths of `vocab.json` and `merges.txt` (both or none). Without them, GPT-2's built-in vocabulary is
       * used.
       */
      readonly vocabFile?: string | undefined;
      readonly mergeFile?: string | undefined;
      /** Path of a chat template in Jinja. The directory of the files is not searched for one. */
      readonly chatTemplate?: string | undefined;
    }
  | {
      readonly type: 'HuggingFaceTokenizer';
      /** Path of a `tokenizer.json`, or of a directory with one. */
      readonly tokenizerModel: string;
      /** The token that ends a document, if the files do not name it. */
      readonly eodToken?: string | undefined;
      /** Path of a chat template in Jinja, which replaces the template in the directory of the file. */
      readonly chatTemplate?: string | undefined;
    }
  | { readonly type: 'BertWordPieceLowerCase' | 'BertWordPieceCase'; readonly vocabFile: string }
  | { readonly type: 'ByteLevelTokenizer'; readonly chatTemplate?: string | undefined }
  | { readonly type: 'NullTokenizer'; readonly vocabSize: number };

/**
 * Rejects ids that a tokenizer does not have, such as another tokenizer's ids. Without this check, such ids
 * would silently be missing in the text. Returns the ids as numbers.
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
