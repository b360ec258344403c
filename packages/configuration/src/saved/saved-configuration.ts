import type { JsonObject } from '@mtl/checkpoint';
import type { Tokenizer, TokenizerOptions } from '@mtl/data';
import { CheckpointError } from '@mtl/errors';
import type { BertModelConfiguration, GptModelConfiguration, TransformerConfiguration } from '@mtl/models';
import type { ModelKind } from '../model-kind.js';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import { type ConfigurationJson, configurationJson } from './configuration-json.js';
import { savedTokenizer, saveTokenizer } from './saved-tokenizer.js';

/** The data of a training. */
export interface TrainedOn {
  /** The words of --data-path, or the prefix of the bundled corpus. */
  readonly dataPath: readonly string[];
  readonly split: string;
}

/** What a checkpoint remembers of the training that wrote it, whatever it trained. */
interface SavedTraining extends ConfigurationJson {
  /** Its files are copies in the folder `tokenizer` next to the checkpoints, by their names there. */
  readonly tokenizer?: TokenizerOptions;
  /** CPU threads of rank 0: a resumed run repeats its results with as many. Absent in older checkpoints. */
  readonly threads?: number;
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
  /** CPU threads of the run; undefined where nothing was trained. */
  readonly threads?: number | undefined;
  /** Undefined where nothing was trained. */
  readonly data: TrainedOn | undefined;
}

/**
 * Copies the tokenizer's files next to the checkpoints, and returns what each checkpoint is to remember.
 *
 * @throws CheckpointError MTL_CHECKPOINT_IO when they cannot be copied
 */
export async function saveConfiguration(options: SaveConfigurationOptions): Promise<JsonObject> {
  const { directory, configuration, model, threads, data } = options;
  const saved = {
    ...configurationJson(configuration),
    [modelKeys[configuration.kind]]: model,
    ...(await saveTokenizer(directory, options.tokenizer)),
    ...(threads === undefined ? {} : { threads }),
    ...(data === undefined ? {} : { trainedOn: data }),
  };
  // what is undefined JSON leaves out
  return JSON.parse(JSON.stringify(saved)) as JsonObject;
}

/** Where a checkpoint is. */
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

/** The model of a checkpoint, whatever kind it is. */
export interface SavedModel {
  readonly kind: ModelKind;
  /** A GptModelConfiguration or a BertModelConfiguration, as `kind` says. */
  readonly model: TransformerConfiguration;
  readonly tokenizer: TokenizerOptions | undefined;
}

/**
 * What model a checkpoint remembers, as `readSavedConfiguration` for a GPT.
 *
 * @throws CheckpointError MTL_CHECKPOINT_STATE when it remembers none
 */
export function readSavedModel(configuration: JsonObject, place: CheckpointPlace): SavedModel {
  if (holds('bert', configuration)) {
    const { bertModel, tokenizer } = readSavedBertConfiguration(configuration, place);
    return { kind: 'bert', model: bertModel, tokenizer };
  }
  const { gptModel, tokenizer } = readSavedConfiguration(configuration, place);
  return { kind: 'gpt', model: gptModel, tokenizer };
}

/** What a checkpoint remembers of a model, and of its training where it was trained. */
export interface SavedTrainingOfModel {
  /** A GptModelConfiguration or a BertModelConfiguration, by the kind that was asked for. */
  readonly model: TransformerConfiguration;
  readonly tokenizer: TokenizerOptions | undefined;
  /** Undefined where nothing was trained: a converted checkpoint. */
  readonly training: Pick<ConfigurationJson, 'flags' | 'resolved'> | undefined;
}

/**
 * What a checkpoint remembers of a model of this kind and of its pretraining.
 *
 * @throws CheckpointError MTL_CHECKPOINT_STATE when it remembers no model of this kind
 */
export function readSavedTraining(
  kind: ModelKind,
  configuration: JsonObject,
  place: CheckpointPlace,
): SavedTrainingOfModel {
  checkHolds(kind, configuration, place);
  const saved = configuration as unknown as SavedTraining & Record<string, unknown>;
  const { trainedOn, flags, resolved } = saved;
  const isTrained = trainedOn !== undefined && flags !== undefined && resolved !== undefined;
  return {
    model: saved[modelKeys[kind]] as TransformerConfiguration,
    tokenizer: savedTokenizer(saved, place),
    training: isTrained ? { flags, resolved } : undefined,
  };
}

function holds(kind: ModelKind, configuration: JsonObject): boolean {
  const models = configuration as Partial<Record<string, Partial<TransformerConfiguration>>> | undefined;
  const { numLayers, hiddenSize, vocabularySize } = models?.[modelKeys[kind]] ?? {};
  return [numLayers, hiddenSize, vocabularySize].every((size) => Number.isSafeInteger(size));
}

function checkHolds(kind: ModelKind, configuration: JsonObject, { path }: CheckpointPlace): void {
  if (holds(kind, configuration)) return;
  const other: ModelKind = kind === 'gpt' ? 'bert' : 'gpt';
  const what = holds(other, configuration)
    ? `holds a ${other.toUpperCase()}`
    : 'does not name the model that it contains';
  throw new CheckpointError('MTL_CHECKPOINT_STATE', `${path} ${what}`, {
    expected: `a checkpoint of a ${kind.toUpperCase()}, that ${kind}-train or mtl convert wrote`,
    remedy: `train one with ${kind}-train, or pass one of the transformers library with --load-hf`,
    exitCode: 2,
  });
}

function withTokenizer<Saved extends SavedTraining>(saved: Saved, { directory }: CheckpointPlace): Saved {
  const tokenizer = savedTokenizer(saved, { directory });
  return tokenizer === undefined ? saved : { ...saved, tokenizer };
}
