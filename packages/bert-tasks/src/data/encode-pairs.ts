import { sharedCopy, specialTokenId, TaskDataset, TaskSequences } from '@mtl/data';
import { ConfigurationError, UsageError } from '@mtl/errors';
import type { Tokenizer } from '@mtl/tokenizers';
import type { SentencePairExample } from './read-glue-file.js';
import type { MultipleChoiceExample } from './read-race-directory.js';

/** Sentence pairs, and settings for encoding them. */
interface EncodeSentencePairsOptions {
  readonly examples: readonly SentencePairExample[];
  /** BERT's WordPiece tokenizer. */
  readonly tokenizer: Tokenizer;
  readonly sequenceLength: number;
}

/**
 * Encodes pairs as `[CLS] first [SEP] second [SEP]`; sample n is example n. If a pair is too long, the longer
 * text is truncated first. Batches have labels if every example has a label. Throws `MTL_DATA_SPECIAL_TOKEN`
 * and `MTL_DATA_SEQUENCE_LENGTH`.
 */
export function encodeSentencePairs(options: EncodeSentencePairsOptions): TaskDataset {
  const { examples, tokenizer, sequenceLength } = options;
  checkTaskSequenceLength(sequenceLength);
  const vocabulary = pairVocabulary(tokenizer);
  const sequences = new TaskSequences();
  const labels: number[] = [];
  for (const { first, second, label } of examples) {
    sequences.add(
      pairTokens({
        first: tokenizer.encode(first),
        second: tokenizer.encode(second),
        sequenceLength,
        vocabulary,
      }),
    );
    if (label !== undefined) labels.push(label);
  }
  return new TaskDataset({
    kind: 'task',
    sequenceLength,
    numChoices: 1,
    padding: vocabulary.padding,
    ...sequences.pack(),
    labels: labels.length === examples.length ? sharedCopy(labels) : undefined,
    startPositions: undefined,
    endPositions: undefined,
  });
}

/** Questions with options, and settings for encoding them. */
interface EncodeMultipleChoiceOptions {
  readonly examples: readonly MultipleChoiceExample[];
  /** BERT's WordPiece tokenizer. */
  readonly tokenizer: Tokenizer;
  readonly sequenceLength: number;
  /**
   * The maximum number of tokens in a question together with an option. Tokens beyond it are dropped.
   * Default: 128, as in Megatron.
   */
  readonly maximumQuestionLength?: number;
}

/**
 * Encodes questions with options. Sample n is example n, with a sequence for each option: `[CLS] question and
 * option [SEP] article [SEP]`. As in Megatron's RACE, the option fills the blank (`_`) of the question, or
 * follows a question without a blank. If a sequence is too long, its longer part is truncated first. Throws
 * `MTL_DATA_SPECIAL_TOKEN` and `MTL_DATA_SEQUENCE_LENGTH`.
 */
export function encodeMultipleChoice(options: EncodeMultipleChoiceOptions): TaskDataset {
  const { examples, tokenizer, sequenceLength, maximumQuestionLength = 128 } = options;
  checkTaskSequenceLength(sequenceLength);
  const numChoices = examples[0]?.options.length ?? 1;
  const vocabulary = pairVocabulary(tokenizer);
  const sequences = new TaskSequences();
  // The tokens of the last article are reused, because questions about the same article are consecutive.
  let article: { readonly text: string; readonly tokens: ArrayLike<number> } | undefined;
  for (const [i, example] of examples.entries()) {
    if (example.options.length !== numChoices) {
      throw new UsageError('MTL_DATA_CHOICE', `example ${i} has ${example.options.length} options`, {
        expected: `${numChoices}, as the first one`,
      });
    }
    if (article?.text !== example.article) {
      article = { text: example.article, tokens: tokenizer.encode(example.article) };
    }
    for (const option of example.options) {
      const question = tokenizer.encode(questionWithOption(example.questionText, option));
      const first = question.slice(0, maximumQuestionLength);
      sequences.add(pairTokens({ first, second: article.tokens, sequenceLength, vocabulary }));
    }
  }
  return new TaskDataset({
    kind: 'task',
    sequenceLength,
    numChoices,
    padding: vocabulary.padding,
    ...sequences.pack(),
    labels: sharedCopy(examples.map(({ label }) => label)),
    startPositions: undefined,
    endPositions: undefined,
  });
}

function questionWithOption(question: string, option: string): string {
  return question.includes('_') ? question.replaceAll('_', () => option) : `${question} ${option}`;
}

/** The ids of the special tokens with which a pair of texts is encoded. */
interface PairVocabulary {
  readonly classification: number;
  readonly separator: number;
  readonly padding: number;
}

/** The number of special tokens in a pair: `[CLS]` and two `[SEP]`. */
export const pairSpecialTokens = 3;

/** Reads the special tokens of a WordPiece tokenizer. Throws `MTL_DATA_SPECIAL_TOKEN` if one is missing. */
export function pairVocabulary(tokenizer: Tokenizer): PairVocabulary {
  return {
    classification: specialTokenId(tokenizer, '[CLS]'),
    separator: specialTokenId(tokenizer, '[SEP]'),
    padding: specialTokenId(tokenizer, '[PAD]'),
  };
}

/**
 * Returns `[CLS] first [SEP] second [SEP]`. If the result would be longer than `sequenceLength`, the longer
 * text loses its last token until both fit. If both texts are equally long, the second text loses its last
 * token. This is the rule of BERT's fine-tuning (Devlin 2018).
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

/** Throws `MTL_DATA_SEQUENCE_LENGTH` if sequences are too short for one token of each text. */
function checkTaskSequenceLength(sequenceLength: number): void {
  if (Number.isInteger(sequenceLength) && sequenceLength >= pairSpecialTokens + 2) return;
  throw new ConfigurationError(
    'MTL_DATA_SEQUENCE_LENGTH',
    `the sequence length ${sequenceLength} is too short`,
    {
      expected: `${pairSpecialTokens + 2} or more: [CLS], two [SEP] and a token of each text`,
    },
  );
}
