import type { TokenizerOptions } from '@mtl/tokenizers';
import { camelCase } from './option-names.js';

/** A file or a number that belongs to a tokenizer. */
export interface TokenizerPart {
  /** The flag, whose name in camel case is the tokenizer's option. */
  readonly flag: 'vocab-file' | 'merge-file' | 'tokenizer-model' | 'vocab-size';
  /** The name of the file in a directory with the tokenizer; absent for a number. */
  readonly file?: string;
}

const wordPiece: readonly TokenizerPart[] = [{ flag: 'vocab-file', file: 'vocab.txt' }];

/** The files and numbers of each type of tokenizer. */
export const tokenizerParts: Readonly<Record<TokenizerOptions['type'], readonly TokenizerPart[]>> = {
  GPT2BPETokenizer: [
    { flag: 'vocab-file', file: 'vocab.json' },
    { flag: 'merge-file', file: 'merges.txt' },
  ],
  HuggingFaceTokenizer: [{ flag: 'tokenizer-model', file: 'tokenizer.json' }],
  BertWordPieceLowerCase: wordPiece,
  BertWordPieceCase: wordPiece,
  ByteLevelTokenizer: [],
  NullTokenizer: [{ flag: 'vocab-size' }],
};

/** Returns the parts that the options of a tokenizer contain, with their options and values. */
export function listParts(options: TokenizerOptions) {
  // a checkpoint of another version may have another type of tokenizer
  return (tokenizerParts[options.type] ?? []).flatMap((part) => {
    const option = camelCase(part.flag);
    const value = (options as Readonly<Record<string, string | number | undefined>>)[option];
    return value === undefined ? [] : [{ ...part, option, value }];
  });
}
