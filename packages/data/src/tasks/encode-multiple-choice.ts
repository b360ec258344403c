import { UsageError } from '@mtl/errors';
import type { Tokenizer } from '../tokenizers/tokenizer.js';
import { checkTaskSequenceLength, pairTokens, pairVocabulary } from './pair-tokens.js';
import type { MultipleChoiceExample } from './read-race-directory.js';
import { TaskDataset } from './task-dataset.js';
import { sharedCopy, TaskSequences } from './task-sequences.js';

/** Questions with options, and how to encode them. */
export interface EncodeMultipleChoiceOptions {
  readonly examples: readonly MultipleChoiceExample[];
  /** BERT's WordPiece. */
  readonly tokenizer: Tokenizer;
  readonly sequenceLength: number;
  /** Tokens of a question with an option at most (Megatron's 128); the rest is dropped. */
  readonly maximumQuestionLength?: number;
}

/**
 * Sample n is example n, one sequence for each option: `[CLS] question and option [SEP] article [SEP]`, as
 * Megatron puts RACE: the option fills the blanks (`_`) of the question, or follows it where it has none. The
 * longer part is truncated first. Throws `MTL_DATA_SPECIAL_TOKEN` and `MTL_DATA_SEQUENCE_LENGTH`.
 */
export function encodeMultipleChoice(options: EncodeMultipleChoiceOptions): TaskDataset {
  const { examples, tokenizer, sequenceLength, maximumQuestionLength = 128 } = options;
  checkTaskSequenceLength(sequenceLength);
  const numChoices = examples[0]?.options.length ?? 1;
  const vocabulary = pairVocabulary(tokenizer);
  const sequences = new TaskSequences();
  // Questions on one article follow each other.
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
