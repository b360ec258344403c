import type { JsonObject } from '@mtl/checkpoint';
import type { Tokenizer, TokenizerOptions } from '@mtl/data';
import { CheckpointError } from '@mtl/errors';
import type { BertModelConfiguration, GptModelConfiguration, TransformerConfiguration } from '@mtl/models';
import { type ConfigurationJson, configurationJson } from '../configuration-json.js';
import type { ModelKind } from '../model-kind.js';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import { savedTokenizer, saveTokenizer } from './saved-tokenizer.js';

/** The data of a training. */
export interface TrainedOn {
  /** The words of --data-path, or the prefix of the corpus that comes along. */
  readonly dataPath: readonly string[];
  readonly split: string;
}

/** What a checkpoint remembers of the training that wrote it, whatever it trained. */
interface SavedTraining extends ConfigurationJson {
  /** Its files are copies in the folder `tokenizer` beside the checkpoints, by their names there. */
  readonly tokenizer?: TokenizerOptions;
  /** Absent where no training has written it. */
  readonly trainedOn?: TrainedOn;
}

/** What a GPT's checkpoint remembers: enough to use the model without a flag. */
export interface SavedConfiguration extends SavedTraining {
  readonly gptModel: GptModelConfiguration;
}

/** What a BERT's checkpoint remembers. */
export interface SavedBertConfiguration extends SavedTraining {
  readonly bertModel: BertModelConfiguration;
}

const modelKeys = { gpt: 'gptModel', bert: 'bertModel' } as const;

export interface SaveConfigurationOptions {
  /** The directory of --save. */
  readonly directory: string;
  readonly configuration: PretrainingConfiguration;
  /** A GptModelConfiguration or a BertModelConfiguration, as `configuration.kind` says. */
  readonly model: TransformerConfiguration;
  /** Undefined where a model came without one. */
  readonly tokenizer: Pick<Tokenizer, 'options'> | undefined;
  /** Undefined where nothing was trained. */
  readonly data: TrainedOn | undefined;
}

/**
 * Copies the tokenizer's files beside the checkpoints, and returns what each checkpoint is to remember.
 *
 * @throws CheckpointError MTL_CHECKPOINT_IO when they cannot be copied
 */
export async function saveConfiguration(options: SaveConfigurationOptions): Promise<JsonObject> {
  const { directory, configuration, model, data } = options;
  const saved = {
    ...configurationJson(configuration),
    [modelKeys[configuration.kind]]: model,
    ...(await saveTokenizer(directory, options.tokenizer)),
    ...(data === undefined ? {} : { trainedOn: data }),
  };
  // what is undefined JSON leaves out
  return JSON.parse(JSON.stringify(saved)) as JsonObject;
}

/** Where a checkpoint lies. */
export interface CheckpointPlace {
  /** The directory that holds the checkpoints. */
  readonly directory: string;
  /** Of the checkpoint, for messages. */
  readonly path: string;
}

/**
 * What a GPT's checkpoint remembers of its training, the tokenizer's files found where they were copied to.
 *
 * @throws CheckpointError MTL_CHECKPOINT_STATE when it remembers no GPT
 */
export function readSavedConfiguration(
  configuration: JsonObject,
  place: CheckpointPlace,
): SavedConfiguration {
  checkHolds('gpt', configuration, place);
  return withTokenizer(configuration as unknown as SavedConfiguration, place);
}

/**
 * What a BERT's checkpoint remembers of its training, as `readSavedConfiguration` for a GPT.
 *
 * @throws CheckpointError MTL_CHECKPOINT_STATE when it remembers no BERT
 */
export function readSavedBertConfiguration(
  configuration: JsonObject,
  place: CheckpointPlace,
): SavedBertConfiguration {
  checkHolds('bert', configuration, place);
  return withTokenizer(configuration as unknown as SavedBertConfiguration, place);
}

function checkHolds(kind: ModelKind, configuration: JsonObject, { path }: CheckpointPlace): void {
  const models = configuration as Partial<Record<string, Partial<TransformerConfiguration>>> | undefined;
  const isModel = (of: ModelKind): boolean => {
    const { numLayers, hiddenSize, vocabularySize } = models?.[modelKeys[of]] ?? {};
    return [numLayers, hiddenSize, vocabularySize].every((size) => Number.isSafeInteger(size));
  };
  if (isModel(kind)) return;
  const other: ModelKind = kind === 'gpt' ? 'bert' : 'gpt';
  const what = isModel(other) ? `holds a ${other.toUpperCase()}` : 'does not say which model it holds';
  throw new CheckpointError('MTL_CHECKPOINT_STATE', `${path} ${what}`, {
    expected: `a checkpoint of a ${kind.toUpperCase()}, that ${kind}-train${kind === 'gpt' ? ' or mtl convert' : ''} wrote`,
    remedy: `train one with ${kind}-train, or pass one of the transformers library with --load-hf`,
    exitCode: 2,
  });
}

function withTokenizer<Saved extends SavedTraining>(saved: Saved, { directory }: CheckpointPlace): Saved {
  const tokenizer = savedTokenizer(saved, { directory });
  return tokenizer === undefined ? saved : { ...saved, tokenizer };
}
