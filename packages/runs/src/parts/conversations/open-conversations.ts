import type {
  ConversationConfiguration,
  ConversationSamples,
  PretrainingConfiguration,
  ResolvedFlags,
} from '@mtl/configuration';
import { checkRequiredFlags, FlagReader } from '@mtl/configuration/flags';
import { chooseTokenizer, conversationConfiguration, tokenizerAdvice } from '@mtl/configuration/internal';
import type { SplitDatasets } from '@mtl/data';
import {
  type ConversationCounts,
  ConversationDataset,
  type ConversationDatasets,
  type ConversationSplit,
  conversationDatasets,
  readChatTemplate,
} from '@mtl/data/conversations';
import { ConfigurationError, UsageError } from '@mtl/errors';
import type { NumberedBatch } from '@mtl/layout';
import { createTokenizer, type Tokenizer } from '@mtl/tokenizers';

/** The conversations of a fine-tuning run, rendered as tokens and packed into samples. */
export interface OpenedConversations extends Pick<ConversationDatasets, 'train' | 'validation'> {
  readonly tokenizer: Tokenizer;
  readonly samples: ConversationSamples;
  /** Lines that describe the conversations to the user. */
  readonly lines: readonly string[];
}

/**
 * Reads the conversations that the flags name. Returns undefined if the flags name none. Every process reads
 * all conversations, with the same result.
 *
 * @throws DataError MTL_DATA_CONVERSATION, MTL_CHAT_TEMPLATE, MTL_DATA_*; ConfigurationError MTL_FLAG_*
 */
export async function openConversations(
  resolved: ResolvedFlags & { readonly argv?: readonly string[] },
): Promise<OpenedConversations | undefined> {
  const flags = new FlagReader(resolved);
  const files = conversationConfiguration(flags);
  if (files === undefined) return undefined;
  // all required flags are checked first, so that a single error names all missing flags
  checkRequiredFlags(flags, { preset: resolved.preset, argv: resolved.argv ?? [] });
  const options = chooseTokenizer(flags);
  if (options === undefined) {
    throw new ConfigurationError('MTL_FLAG_REQUIRED', '--train-data is given without a tokenizer', {
      expected: 'the tokenizer of the model that is fine-tuned',
      remedy: `name the model with --load-hf DIR or --load DIR, or pass ${tokenizerAdvice.gpt}`,
    });
  }
  const tokenizer = await createTokenizer(options);
  const template = readChatTemplate(tokenizer);
  const [sequenceLength, seed] = [flags.required('seq-length'), flags.required('seed')];
  const found = await conversationDatasets({ ...files, template, tokenizer, sequenceLength, seed });
  const { train, validation } = found;
  return {
    train,
    validation,
    tokenizer,
    samples: {
      numTrain: numRows(train),
      numValidation: validation === undefined ? 0 : numRows(validation),
    },
    lines: describeConversations(files, { ...found, template: template.name }),
  };
}

const numRows = ({ packed }: ConversationSplit): number => packed.rowOffsets.length - 1;

function describeConversations(
  { long }: ConversationConfiguration,
  found: ConversationDatasets & { readonly template: string },
): readonly string[] {
  const { train, validation, counts, validationCounts, template } = found;
  const held = validation === undefined ? '' : `, ${validation.numConversations} to evaluate on`;
  return [
    `conversations by ${template}: ${train.numConversations} to train on${held}`,
    `  ${describePacking(train)}`,
    ...[counts, validationCounts].flatMap((one) => (one === undefined ? [] : listNotes(one, long))),
  ];
}

function describePacking(part: ConversationSplit): string {
  const { tokens, isLearnt, sequenceLength } = part.packed;
  const learnt = isLearnt.reduce((sum, one) => sum + one, 0);
  const used = (tokens.length - part.numConversations) / (numRows(part) * sequenceLength);
  const counted = (count: number): string => count.toLocaleString('en-US');
  return (
    `${counted(tokens.length)} tokens, ${counted(learnt)} of them the assistant's, in ${counted(numRows(part))} ` +
    `samples of ${sequenceLength} (${(100 * used).toFixed(1)} % filled)`
  );
}

/** Returns notices about truncated and omitted conversations. */
function listNotes(counts: ConversationCounts, long: ConversationConfiguration['long']): readonly string[] {
  const { read, truncated, dropped, withoutAnswer, splitTokens, withoutEnd } = counts;
  const numKept = read - dropped - withoutAnswer;
  const flag = `--long-conversations ${long}`;
  return [
    ...(truncated > 0
      ? [`  note: ${truncated} of ${read} conversations are cut to --seq-length (${flag})`]
      : []),
    ...(dropped > 0
      ? [`  note: ${dropped} of ${read} conversations exceed --seq-length and are left out (${flag})`]
      : []),
    ...(withoutAnswer > 0
      ? [`  note: ${withoutAnswer} of ${read} conversations have no token to learn and are left out`]
      : []),
    ...(withoutEnd > 0 && withoutEnd >= numKept - truncated
      ? [
          '  note: no special token ends an answer, so the model does not learn to end one, and generation goes on to its limit; ' +
            'a template that writes an end, such as {{ eos_token }}, behind each message of the assistant teaches it (--chat-template FILE)',
        ]
      : []),
    ...(splitTokens > 0
      ? [
          `  note: in ${splitTokens} of ${read} conversations an answer begins or ends inside a token, which is learnt; a template ` +
            'whose generation prompt ends in a line break or a special token keeps them apart',
        ]
      : []),
  ];
}

/**
 * Returns the samples of a run that is trained on conversations. An epoch contains every conversation once,
 * followed by empty samples that fill its last global batch.
 *
 * @throws UsageError MTL_CONVERSATIONS if the conversations were not read
 */
export function dataOfConversations(
  { training }: Pick<PretrainingConfiguration, 'training'>,
  conversations: OpenedConversations | undefined,
) {
  if (conversations === undefined) {
    throw new UsageError('MTL_CONVERSATIONS', 'a training run on conversations is built without them', {
      expected: 'what openConversations returns for its flags',
    });
  }
  const { globalBatchSize, evalIterations } = training;
  const { tokenizer, validation } = conversations;
  const train = makeDataset(conversations.train, globalBatchSize);
  const valid =
    validation === undefined || evalIterations === 0 ? undefined : makeDataset(validation, globalBatchSize);
  const datasets: SplitDatasets<NumberedBatch> = { train, valid, test: undefined };
  return { datasets, train, tokenizer, dataPath: [] };
}

function makeDataset({ packed }: ConversationSplit, batchSize: number): ConversationDataset {
  const rows = packed.rowOffsets.length - 1;
  const numSamples = Math.ceil(rows / batchSize) * batchSize;
  return new ConversationDataset({ ...packed, kind: 'conversations', numSamples });
}
