import type { PythonJsonValue } from '../python/json.js';
import type { TokenizerOptions } from './tokenizer-options.js';
import type { EncodedText } from './word-piece-offsets.js';

/** Turns text into token ids and back. */
export interface Tokenizer {
  /** The value of Megatron's `--tokenizer-type`. */
  readonly name: string;
  /** Number of ids: the largest one is `vocabularySize - 1`. Not padded. */
  readonly vocabularySize: number;
  /** The end-of-document token. */
  readonly eod: number;
  /** The padding token, if there is one. */
  readonly padId?: number | undefined;
  /** Special tokens that begin a text of its own, such as a prompt; absent where texts begin with none. */
  readonly startIds?: readonly number[] | undefined;
  /** Ids by token, special ones included, where a tokenizer has a list of tokens: masking needs it. */
  readonly tokenIds?: ReadonlyMap<string, number> | undefined;
  /** Ids of special tokens, where a tokenizer has a list of tokens; absent: the end of a document alone. */
  readonly specialIds?: ReadonlySet<number> | undefined;
  /** What names this tokenizer in the md5 of index caches. */
  readonly identifiers: PythonJsonValue;
  /**
   * What `createTokenizer` needs to make the same one in a worker thread; undefined for one that cannot
   * travel.
   */
  readonly options: TokenizerOptions | undefined;
  /** Ids of a text; no special tokens are added. */
  encode(text: string): Int32Array | number[];
  /**
   * Ids of a text as `encode` gives them, each with its place in the text (UTF-16 units); undefined for
   * tokenizers other than BERT's WordPiece. Reading comprehension needs it.
   */
  readonly encodeWithOffsets?: ((text: string) => EncodedText) | undefined;
  /**
   * Text of ids, such as those of `IndexedDataset.sequence`; ids of special tokens are spelt out.
   *
   * @param ids whole numbers; bigint in datasets of int64
   */
  decode(ids: ArrayLike<number | bigint>): string;
}
