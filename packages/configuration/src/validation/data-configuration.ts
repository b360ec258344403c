import { ConfigurationError } from '@mtl/errors';
import { resolveFlags } from '../command-line/resolve-flags.js';
import { bundledCorpus, dataFlags } from '../flags/data-flags.js';
import type {
  ConversationConfiguration,
  DataConfiguration,
  TokenizerConfiguration,
  TrainingConfiguration,
} from '../pretraining-configuration.js';
import type { FlagName, Flags } from '../schema/flag-schema.js';
import { FlagReader } from './flag-reader.js';

/** The flags that only runs on conversations have. */
const conversationFlags = [
  'validation-data',
  'validation-fraction',
  'epochs',
  'early-stopping-patience',
] as const;

/**
 * Returns the settings of a run on conversations; undefined for other runs.
 *
 * @throws ConfigurationError `MTL_FLAG_NEEDS`, `MTL_FLAG_CONFLICT`
 */
export function conversationConfiguration(flags: FlagReader): ConversationConfiguration | undefined {
  const trainData = flags.get('train-data');
  if (trainData === undefined) {
    flags.needsFor(conversationFlags, '--train-data FILE', 'belongs to conversations');
    return undefined;
  }
  const dataPath = flags.get('data-path');
  if (dataPath !== undefined && !(flags.isDefault('data-path') && dataPath.join() === bundledCorpus)) {
    flags.conflict({
      flags: ['train-data', 'data-path'],
      why: 'a run learns from conversations or from documents',
      remedy: 'pass --train-data alone; a model that was pretrained here is named with --load DIR --finetune',
    });
  }
  const validationData = flags.get('validation-data') ?? [];
  const validationFraction = flags.required('validation-fraction');
  if (validationData.length > 0 && validationFraction > 0) {
    flags.conflict({
      flags: ['validation-data', 'validation-fraction'],
      why: 'the conversations to evaluate on come from files or from those to train on',
    });
  }
  const patience = flags.get('early-stopping-patience');
  if (patience !== undefined && validationData.length === 0 && validationFraction === 0) {
    flags.needs(
      'early-stopping-patience',
      '--validation-fraction 0.05',
      'needs conversations to evaluate on',
    );
  }
  return {
    trainData,
    validationData,
    validationFraction,
    long: flags.required('long-conversations'),
    ...(patience === undefined ? {} : { patience }),
  };
}

export interface DataConfigurationOptions {
  readonly flags: FlagReader;
  readonly training: TrainingConfiguration;
  readonly notices: string[];
}

/**
 * Returns the configuration of a run's data.
 *
 * @throws ConfigurationError `MTL_SPLIT`, `MTL_FLAG_NEEDS` or `MTL_FLAG_CONFLICT`.
 */
export function dataConfiguration({ flags, training, notices }: DataConfigurationOptions): DataConfiguration {
  const mockData = flags.get('mock-data') === true;
  if (mockData) checkMockData(flags);
  const conversations = conversationConfiguration(flags);
  const split = flags.required('split');
  const [train, valid] = parseWeights(split);
  if (!(train! > 0)) refuseSplit(flags, 'gives training nothing');
  if (conversations === undefined && !(valid! > 0) && training.evalIterations > 0) {
    notices.push(`${flags.written('split')} keeps nothing for validation: there will be no evaluation`);
  }
  const dataPath = conversations === undefined && !mockData ? readDataPath(flags) : [];
  const tokenizer = chooseTokenizer(flags);
  if (mockData && tokenizer === undefined)
    flags.needs(
      'mock-data',
      '--tokenizer-type NullTokenizer --vocab-size N',
      'has the tokens of a tokenizer',
    );
  if (tokenizer !== undefined && flags.get('tokenizer-type') === undefined)
    notices.push(`the files of the tokenizer are read as files of --tokenizer-type ${tokenizer.type}`);
  return {
    ...flags.values(dataFlags),
    dataPath,
    ...(mockData ? { mockData } : {}),
    ...(tokenizer === undefined ? {} : { tokenizer }),
    ...(conversations === undefined ? {} : { conversations }),
    // makes position ids restart, and attention stop, at the boundaries between packed conversations
    ...(conversations !== undefined && { resetPositionIds: true, resetAttentionMask: true }),
  };

  function parseWeights(text: string): readonly number[] {
    const words = text.split(/[,\s/]+/).filter((word) => word !== '');
    const weights = words.map(Number);
    if (weights.some((weight) => !(Number.isFinite(weight) && weight >= 0)))
      refuseSplit(flags, 'is not a list of weights');
    if (weights.length < 1 || weights.length > 3) refuseSplit(flags, `has ${weights.length} weights`);
    return [...weights, 0, 0].slice(0, 3);
  }
}

/**
 * Rejects mock data together with real data.
 *
 * @throws ConfigurationError `MTL_FLAG_CONFLICT`
 */
function checkMockData(flags: FlagReader): void {
  for (const other of ['data-path', 'train-data'] as const) {
    if (!flags.isGiven(other)) continue;
    flags.conflict({
      flags: ['mock-data', other],
      why: 'a run learns from made-up data or from data of your own',
      remedy: 'leave out one',
    });
  }
}

/**
 * Returns the words of --data-path, or an empty list for the bundled corpus, which cannot be mixed with other
 * data.
 */
function readDataPath(flags: FlagReader): readonly string[] {
  const words = flags.get('data-path') ?? [];
  if (!words.includes(bundledCorpus)) return words;
  if (words.length === 1) return [];
  throw new ConfigurationError(
    'MTL_DATA_PATH',
    `${flags.written('data-path')} mixes the bundled corpus with others`,
    {
      expected: `--data-path ${bundledCorpus} alone, or prefixes of datasets`,
      remedy: `write ./${bundledCorpus} where a dataset has that name`,
    },
  );
}

function refuseSplit(flags: FlagReader, why: string): never {
  throw new ConfigurationError('MTL_SPLIT', `${flags.written('split')} ${why}`, {
    expected: 'one to three weights of 0 or more, for training, validation and test, the first above 0',
    remedy: 'pass --split 969,30,1',
  });
}

/** Tokenizer flags, and the types of tokenizers that accept each flag. */
const tokenizerFlags: ReadonlyArray<readonly [FlagName, readonly string[]]> = [
  ['vocab-file', ['GPT2BPETokenizer', 'BertWordPieceLowerCase', 'BertWordPieceCase']],
  ['merge-file', ['GPT2BPETokenizer']],
  ['tokenizer-model', ['HuggingFaceTokenizer']],
  ['vocab-size', ['NullTokenizer']],
];

/**
 * Returns the default type of a tokenizer, for flags that name only its files. As in Megatron-LM's programs,
 * the type depends on the kind of model.
 */
function typeOfFiles(flags: FlagReader): Flags['tokenizer-type'] {
  const [vocabFile, mergeFile] = [flags.get('vocab-file'), flags.get('merge-file')];
  if (vocabFile !== undefined && mergeFile !== undefined) return 'GPT2BPETokenizer';
  return vocabFile !== undefined && flags.model === 'bert' ? 'BertWordPieceLowerCase' : undefined;
}

/**
 * Returns the tokenizer that flags describe, with its chat template.
 *
 * @throws ConfigurationError `MTL_FLAG_NEEDS`
 */
export function chooseTokenizer(flags: FlagReader): TokenizerConfiguration | undefined {
  const tokenizer = flags.loadedTokenizer ?? tokenizerOfFlags(flags);
  const chatTemplate = flags.get('chat-template');
  if (chatTemplate === undefined) return tokenizer;
  if (tokenizer === undefined)
    flags.needs('chat-template', '--tokenizer-type NAME', 'belongs to a tokenizer');
  if (!chatTokenizerTypes.includes(tokenizer.type)) {
    flags.needs(
      'chat-template',
      '--tokenizer-type HuggingFaceTokenizer',
      `does not belong to a ${tokenizer.type}`,
    );
  }
  return { ...tokenizer, chatTemplate } as TokenizerConfiguration;
}

/** Types of tokenizers that can be used for conversations. */
const chatTokenizerTypes: readonly string[] = [
  'GPT2BPETokenizer',
  'HuggingFaceTokenizer',
  'ByteLevelTokenizer',
];

function tokenizerOfFlags(flags: FlagReader): TokenizerConfiguration | undefined {
  const type = flags.get('tokenizer-type') ?? typeOfFiles(flags);
  for (const [name, types] of tokenizerFlags) {
    if (flags.get(name) === undefined || (type !== undefined && types.includes(type))) continue;
    const wanted = types.map((other) => `--tokenizer-type ${other}`).join(' or ');
    flags.needs(name, wanted, type === undefined ? 'needs a tokenizer' : `does not belong to a ${type}`);
  }
  switch (type) {
    case undefined:
      return undefined;
    case 'ByteLevelTokenizer':
      return { type };
    case 'GPT2BPETokenizer':
      return { type, ...gpt2Files(flags) };
    case 'HuggingFaceTokenizer':
      return { type, tokenizerModel: needed(flags, 'tokenizer-model', '--tokenizer-model tokenizer.json') };
    case 'NullTokenizer':
      return { type, vocabSize: needed(flags, 'vocab-size', '--vocab-size N') };
    default:
      return { type, vocabFile: needed(flags, 'vocab-file', '--vocab-file vocab.txt') };
  }
}

function needed<Name extends 'tokenizer-model' | 'vocab-size' | 'vocab-file'>(
  flags: FlagReader,
  name: Name,
  usage: string,
): NonNullable<ReturnType<typeof flags.get<Name>>> {
  const value = flags.get(name);
  if (value === undefined) flags.needs('tokenizer-type', usage, 'does not say which tokens there are');
  return value as NonNullable<typeof value>;
}

const builtIn = "(GPT-2's merges are built in, and need neither file)";

/**
 * Returns the two files of a GPT-2 vocabulary. Returns no files if no flag names a file, because the
 * vocabulary is also built in. It is an error if flags name only one of the two files.
 */
function gpt2Files(flags: FlagReader): { readonly vocabFile?: string; readonly mergeFile?: string } {
  const vocabFile = flags.get('vocab-file');
  const mergeFile = flags.get('merge-file');
  if (vocabFile === undefined && mergeFile === undefined) return {};
  if (vocabFile === undefined)
    return flags.needs('merge-file', '--vocab-file vocab.json', `has no vocabulary ${builtIn}`);
  if (mergeFile === undefined)
    return flags.needs('vocab-file', '--merge-file merges.txt', `has no merges ${builtIn}`);
  return { vocabFile, mergeFile };
}

/** The flags for a tokenizer, as a command line gives them. */
export interface TokenizerFlags {
  readonly 'tokenizer-type'?: string | undefined;
  readonly 'tokenizer-model'?: string | undefined;
  readonly 'vocab-file'?: string | undefined;
  readonly 'merge-file'?: string | undefined;
  readonly 'vocab-size'?: number | undefined;
}

/**
 * Returns the tokenizer that the flags describe; undefined if no flag is given. For programs that have no
 * other training flags.
 *
 * @throws ConfigurationError `MTL_FLAG_NEEDS` if a flag needs a flag that is missing
 */
export function readTokenizerFlags(flags: TokenizerFlags): TokenizerConfiguration | undefined {
  const given = new Map(Object.entries(flags).filter(([, value]) => value !== undefined));
  return chooseTokenizer(
    new FlagReader(resolveFlags({ given: given as Map<keyof TokenizerFlags, unknown>, preset: 'none' })),
  );
}
