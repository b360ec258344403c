import type { ChatTemplate } from '@mtl/chat-templates';
import type { Tokenizer } from '@mtl/tokenizers';
import { RandomState } from '../random/random-state.js';
import { conversationError } from './conversation.js';
import type { PackedConversations } from './conversation-dataset.js';
import {
  type ConversationCounts,
  type EncodedConversation,
  encodeConversations,
  type LongConversationRule,
  packConversations,
} from './encode-conversations.js';
import { readConversations } from './read-conversations.js';

/** The conversation files of a fine-tuning run, and the share of conversations for evaluation. */
export interface ConversationFiles {
  /** JSON-lines files to train on (see `readConversations`). */
  readonly trainData: readonly string[];
  /** Files to evaluate on. */
  readonly validationData: readonly string[];
  /**
   * The share of the training conversations that is used for evaluation if there are no evaluation files,
   * from 0 to below 1.
   */
  readonly validationFraction: number;
  readonly long: LongConversationRule;
}

/** Files of conversations, and the settings for making samples. */
export interface ConversationDatasetsOptions extends ConversationFiles {
  readonly template: ChatTemplate;
  readonly tokenizer: Tokenizer;
  readonly sequenceLength: number;
  /** The seed for the random choice of evaluation conversations. */
  readonly seed: number;
}

/** The conversations for training or for evaluation. */
export interface ConversationSplit {
  readonly packed: PackedConversations;
  readonly numConversations: number;
}

/** The packed conversations of a fine-tuning run. */
export interface ConversationDatasets {
  readonly train: ConversationSplit;
  /** The conversations for evaluation; undefined if there are none. */
  readonly validation: ConversationSplit | undefined;
  /** Counts over all training files, before the share for evaluation is separated. */
  readonly counts: ConversationCounts;
  readonly validationCounts: ConversationCounts | undefined;
}

/**
 * Reads, encodes and packs the conversations of a fine-tuning run.
 *
 * @throws the errors of `encodeConversations`
 */
export async function conversationDatasets(
  options: ConversationDatasetsOptions,
): Promise<ConversationDatasets> {
  const { trainData, validationData, validationFraction, sequenceLength, seed } = options;
  const part = (conversations: readonly EncodedConversation[]): ConversationSplit => ({
    packed: packConversations(conversations, sequenceLength),
    numConversations: conversations.length,
  });
  const all = await encodedFiles(trainData, options);
  if (validationData.length > 0) {
    const validation = await encodedFiles(validationData, options);
    return {
      train: part(all.encoded),
      validation: part(validation.encoded),
      counts: all.counts,
      validationCounts: validation.counts,
    };
  }
  const numAll = all.encoded.length;
  if (validationFraction > 0 && numAll === 1) {
    throw conversationError(trainData.join(', '), 'one conversation cannot be trained and evaluated on', {
      expected: 'two or more: a share is kept for evaluation',
      remedy: 'leave --validation-fraction out, or pass --validation-data FILE',
    });
  }
  const order = Float64Array.from(all.encoded.keys());
  new RandomState(seed).shuffle(order);
  // if the share is above 0, both splits get at least one conversation
  const wanted = validationFraction === 0 ? 0 : Math.max(1, Math.round(validationFraction * numAll));
  const numValidation = Math.min(wanted, numAll - 1);
  const held = new Set(order.subarray(0, numValidation));
  const { encoded, counts } = all;
  return {
    train: part(encoded.filter((_, index) => !held.has(index))),
    validation: numValidation === 0 ? undefined : part(encoded.filter((_, index) => held.has(index))),
    counts,
    validationCounts: undefined,
  };
}

async function encodedFiles(paths: readonly string[], options: ConversationDatasetsOptions) {
  const found = await encodeConversations({ ...options, conversations: inOrder(paths) });
  if (found.encoded.length > 0) return found;
  const { read, dropped } = found.counts;
  throw conversationError(
    paths.join(', '),
    read === 0 ? 'no conversation' : `no conversation is left of ${read} (${dropped} are too long)`,
    {
      expected: 'one conversation on each line',
      ...(read === 0 ? {} : { remedy: 'pass a larger --seq-length' }),
    },
  );
}

async function* inOrder(paths: readonly string[]) {
  for (const path of paths) yield* readConversations(path);
}
