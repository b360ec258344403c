import { UsageError } from '@mtl/errors';
import type { EncodedText } from './word-piece.js';

/** Converts text to token ids and back. */
export interface Tokenizer {
  /** The value of Megatron's `--tokenizer-type`. */
  readonly name: string;
  /** Number of ids: the largest id is `vocabularySize - 1`. It is not padded. */
  readonly vocabularySize: number;
  /** The end-of-document token. */
  readonly eod: number;
  /** The padding token, if there is one. */
  readonly padId?: number | undefined;
  /** Special tokens at the start of a separate text, such as a prompt; absent if texts begin without one. */
  readonly startIds?: readonly number[] | undefined;
  /** Ids by token, special tokens included, if the tokenizer has a list of tokens. Masking needs them. */
  readonly tokenIds?: ReadonlyMap<string, number> | undefined;
  /** Texts of `bos_token`, `eos_token` and so on, by these names, if the tokenizer's files state them. */
  readonly specialTokens?: Readonly<Record<string, string>> | undefined;
  /**
   * Ids of special tokens, if the tokenizer has a list of tokens; absent: the end-of-document token is the
   * only one.
   */
  readonly specialIds?: ReadonlySet<number> | undefined;
  /** Values that identify this tokenizer in the md5 of index caches. */
  readonly identifiers: TokenizerIdentifiers;
  /**
   * Options with which `createTokenizer` makes an equal tokenizer in a worker thread; undefined if that is
   * not possible.
   */
  readonly options: TokenizerOptions | undefined;
  /** Returns the ids of a text, without adding special tokens. */
  encode(text: string): Int32Array | number[];
  /**
   * Returns the ids of a text as `encode` gives them, each with its range in the text (UTF-16 units);
   * undefined for tokenizers other than BERT's WordPiece. Reading comprehension needs it.
   */
  readonly encodeWithOffsets?: ((text: string) => EncodedText) | undefined;
  /**
   * Returns the text of ids, for example of the ids that `IndexedDataset.sequence` returns; special tokens
   * become their texts.
   *
   * @param ids whole numbers; bigint in datasets of int64
   */
  decode(ids: ArrayLike<number | bigint>): string;
}

/** A JSON value that identifies a tokenizer. */
export type TokenizerIdentifiers =
  | null
  | boolean
  | number
  | string
  | readonly TokenizerIdentifiers[]
  | { readonly [key: string]: TokenizerIdentifiers };

/** The tokenizers that can be made by name: Megatron's `--tokenizer-type`. */
export const tokenizerTypes = [
  'GPT2BPETokenizer',
  'HuggingFaceTokenizer',
  'BertWordPieceLowerCase',
  'BertWordPieceCase',
  'ByteLevelTokenizer',
  'NullTokenizer',
] as const;

/** A description of the tokenizer to make, as plain data: worker threads make equal tokenizers from it. */
export type TokenizerOptions =
  | {
      readonly type: 'GPT2BPETokenizer';
      /**
       * Paths of `vocab.json` and `merges.txt` (both or none); without them, GPT-2's own vocabulary, which is
       * built in.
       */
      readonly vocabFile?: string | undefined;
      readonly mergeFile?: string | undefined;
      /** Path of a chat template in Jinja; none is searched for next to the files. */
      readonly chatTemplate?: string | undefined;
    }
  | {
      readonly type: 'HuggingFaceTokenizer';
      /** Path of a `tokenizer.json`, or of a directory with one. */
      readonly tokenizerModel: string;
      /** The token that ends a document, if the files do not name it. */
      readonly eodToken?: string | undefined;
      /** Path of a chat template in Jinja, which replaces the template next to the file. */
      readonly chatTemplate?: string | undefined;
    }
  | { readonly type: 'BertWordPieceLowerCase' | 'BertWordPieceCase'; readonly vocabFile: string }
  | { readonly type: 'ByteLevelTokenizer'; readonly chatTemplate?: string | undefined }
  | { readonly type: 'NullTokenizer'; readonly vocabSize: number };

/**
 * Rejects ids that a tokenizer does not have, such as another tokenizer's ids, instead of leaving them out of
 * a text, and returns them as numbers.
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
