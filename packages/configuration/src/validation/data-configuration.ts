import { resolveFlags } from '../command-line/resolve-flags.js';
import { bundledCorpus, conversationFlags, dataFlags } from '../flags/data-flags.js';
import { withoutUndefined } from '../flags/flag-values.js';
import { camelCase } from '../flags/option-names.js';
import { type TokenizerPart, tokenizerParts } from '../flags/tokenizer-parts.js';
import type {
  ConversationConfiguration,
  DataConfiguration,
  TokenizerConfiguration,
  TrainingConfiguration,
} from '../pretraining-configuration.js';
import type { Flags } from '../schema/flag-schema.js';
import { FlagReader } from './flag-reader.js';

/**
 * Returns the settings of a run on conversations; undefined for other runs.
 *
 * @throws ConfigurationError `MTL_FLAG_NEEDS`, `MTL_FLAG_CONFLICT`
 */
export function conversationConfiguration(flags: FlagReader): ConversationConfiguration | undefined {
  flags.checkRelations(conversationFlags);
  const trainData = flags.get('train-data');
  if (trainData === undefined) return undefined;
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
    ...withoutUndefined({ patience }),
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
    ...withoutUndefined({ tokenizer, conversations }),
    // makes attention and positions stop at the boundaries between packed conversations
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
 * Returns the words of --data-path, or an empty list for the bundled corpus, which cannot be mixed with other
 * data.
 */
function readDataPath(flags: FlagReader): readonly string[] {
  const words = flags.get('data-path') ?? [];
  if (!words.includes(bundledCorpus)) return words;
  if (words.length === 1) return [];
  flags.refuse('data-path', 'mixes the bundled corpus with others', {
    code: 'MTL_DATA_PATH',
    expected: `--data-path ${bundledCorpus} alone, or prefixes of datasets`,
    remedy: `write ./${bundledCorpus} where a dataset has that name`,
  });
}

function refuseSplit(flags: FlagReader, why: string): never {
  flags.refuse('split', why, {
    code: 'MTL_SPLIT',
    expected: 'one to three weights of 0 or more, for training, validation and test, the first above 0',
    remedy: 'pass --split 969,30,1',
  });
}

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
  const isGiven = ({ flag }: TokenizerPart): boolean => flags.get(flag) !== undefined;
  for (const { flag } of Object.values(tokenizerParts).flat().filter(isGiven)) {
    const types = Object.entries(tokenizerParts).filter(([, parts]) =>
      parts.some((part) => part.flag === flag),
    );
    if (types.some(([other]) => other === type)) continue;
    const wanted = types.map(([other]) => `--tokenizer-type ${other}`).join(' or ');
    flags.needs(flag, wanted, type === undefined ? 'needs a tokenizer' : `does not belong to a ${type}`);
  }
  if (type === undefined) return undefined;
  const given = tokenizerParts[type].filter(isGiven);
  const missing = tokenizerParts[type].find((part) => !isGiven(part));
  if (missing !== undefined) checkMissingPart(flags, { type, missing, given });
  return {
    type,
    ...Object.fromEntries(given.map(({ flag }) => [camelCase(flag), flags.get(flag)])),
  } as TokenizerConfiguration;
}

/**
 * Rejects a tokenizer without a part. GPT-2's vocabulary is also built in, so that a GPT2BPETokenizer has
 * either both files or none.
 */
function checkMissingPart(
  flags: FlagReader,
  {
    type,
    missing: { flag, file = 'N' },
    given: [other],
  }: { readonly type: string; readonly missing: TokenizerPart; readonly given: readonly TokenizerPart[] },
): void {
  const usage = `--${flag} ${file}`;
  if (type !== 'GPT2BPETokenizer')
    flags.needs('tokenizer-type', usage, 'does not say which tokens there are');
  if (other === undefined) return;
  const what = flag === 'vocab-file' ? 'vocabulary' : 'merges';
  flags.needs(other.flag, usage, `has no ${what} (GPT-2's merges are built in, and need neither file)`);
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
