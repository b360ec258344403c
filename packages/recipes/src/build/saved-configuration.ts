import type { JsonObject } from '@mtl/checkpoint';
import type { Tokenizer, TokenizerOptions } from '@mtl/data';
import { CheckpointError } from '@mtl/errors';
import type { GptModelConfiguration, TransformerConfiguration } from '@mtl/models';
import { type ConfigurationJson, configurationJson } from '../configuration-json.js';
import type { GptConfiguration } from '../gpt-configuration.js';
import { savedTokenizer, saveTokenizer } from './saved-tokenizer.js';

/** The data of a training. */
export interface TrainedOn {
  /** The words of --data-path, or the prefix of the corpus that comes along. */
  readonly dataPath: readonly string[];
  readonly split: string;
}

/** What a checkpoint remembers of the training that wrote it: enough to use the model without a flag. */
export interface SavedConfiguration extends ConfigurationJson {
  readonly gptModel: GptModelConfiguration;
  /** Its files are copies in the folder `tokenizer` beside the checkpoints, by their names there. */
  readonly tokenizer?: TokenizerOptions;
  /** Absent where no training has written it. */
  readonly trainedOn?: TrainedOn;
}

export interface SaveConfigurationOptions {
  /** The directory of --save. */
  readonly directory: string;
  readonly configuration: GptConfiguration;
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
    [configuration.kind === 'bert' ? 'bertModel' : 'gptModel']: model,
    ...(await saveTokenizer(directory, options.tokenizer)),
    ...(data === undefined ? {} : { trainedOn: data }),
  };
  // what is undefined JSON leaves out
  return JSON.parse(JSON.stringify(saved)) as JsonObject;
}

/**
 * What a checkpoint remembers of its training, the tokenizer's files found where they were copied to.
 *
 * @param directory the directory that holds the checkpoints
 * @param path of the checkpoint, for messages
 * @throws CheckpointError MTL_CHECKPOINT_STATE when it remembers no model
 */
export function readSavedConfiguration(
  configuration: JsonObject,
  { directory, path }: { directory: string; path: string },
): SavedConfiguration {
  const saved = configuration as unknown as SavedConfiguration;
  const { numLayers, hiddenSize, vocabularySize } = saved?.gptModel ?? {};
  if (![numLayers, hiddenSize, vocabularySize].every((size) => Number.isSafeInteger(size))) {
    throw new CheckpointError('MTL_CHECKPOINT_STATE', `${path} does not say which model it holds`, {
      expected: 'a checkpoint that gpt-train or mtl convert wrote',
      exitCode: 2,
    });
  }
  const tokenizer = savedTokenizer(configuration, { directory });
  return tokenizer === undefined ? saved : { ...saved, tokenizer };
}
