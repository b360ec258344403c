import type { Tokenizer } from '../tokenizers/tokenizer.js';
import { checkTaskSequenceLength, pairTokens, pairVocabulary } from './pair-tokens.js';
import type { SentencePairExample } from './read-glue-file.js';
import { TaskDataset } from './task-dataset.js';
import { sharedCopy, TaskSequences } from './task-sequences.js';

/** Sentence pairs, and how to encode them. */
export interface EncodeSentencePairsOptions {
  readonly examples: readonly SentencePairExample[];
  /** BERT's WordPiece. */
  readonly tokenizer: Tokenizer;
  readonly sequenceLength: number;
}

/**
 * Sample n is example n: `[CLS] first [SEP] second [SEP]`, the longer text truncated first. Its batches have
 * labels when every example has one. Throws `MTL_DATA_SPECIAL_TOKEN` and `MTL_DATA_SEQUENCE_LENGTH`.
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
