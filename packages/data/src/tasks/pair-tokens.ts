import { ConfigurationError } from '@mtl/errors';
import { specialTokenId } from '../masked/masking.js';
import type { Tokenizer } from '../tokenizers/tokenizer.js';

/** The special tokens of a pair of texts. */
export interface PairVocabulary {
  readonly classification: number;
  readonly separator: number;
  readonly padding: number;
}

/** Special tokens of a pair: `[CLS]` and two `[SEP]`. */
export const pairSpecialTokens = 3;

/**
 * Reads the special tokens of a WordPiece tokenizer. Throws `MTL_DATA_SPECIAL_TOKEN` where one is missing.
 */
export function pairVocabulary(tokenizer: Tokenizer): PairVocabulary {
  return {
    classification: specialTokenId(tokenizer, '[CLS]'),
    separator: specialTokenId(tokenizer, '[SEP]'),
    padding: specialTokenId(tokenizer, '[PAD]'),
  };
}

/**
 * `[CLS] first [SEP] second [SEP]`. Where that is longer than `sequenceLength`, the longer of the two texts
 * loses its last token until both fit, the second one when they are equal (Devlin 2018: the rule of BERT's
 * fine-tuning).
 */
export function pairTokens(options: {
  readonly first: ArrayLike<number>;
  readonly second: ArrayLike<number>;
  readonly sequenceLength: number;
  readonly vocabulary: PairVocabulary;
}): { readonly tokens: number[]; readonly firstLength: number } {
  const { first, second, sequenceLength, vocabulary } = options;
  const room = sequenceLength - pairSpecialTokens;
  let { length: firstTokens } = first;
  let { length: secondTokens } = second;
  while (firstTokens + secondTokens > room) {
    if (firstTokens > secondTokens) firstTokens--;
    else secondTokens--;
  }
  const { classification, separator } = vocabulary;
  const tokens = [classification];
  for (let i = 0; i < firstTokens; i++) tokens.push(first[i]!);
  tokens.push(separator);
  for (let i = 0; i < secondTokens; i++) tokens.push(second[i]!);
  tokens.push(separator);
  return { tokens, firstLength: firstTokens + 2 };
}

/** Throws `MTL_DATA_SEQUENCE_LENGTH` for sequences that could not hold a token of each text. */
export function checkTaskSequenceLength(sequenceLength: number): void {
  if (Number.isInteger(sequenceLength) && sequenceLength >= pairSpecialTokens + 2) return;
  throw new ConfigurationError(
    'MTL_DATA_SEQUENCE_LENGTH',
    `the sequence length ${sequenceLength} is too short`,
    {
      expected: `${pairSpecialTokens + 2} or more: [CLS], two [SEP] and a token of each text`,
    },
  );
}
