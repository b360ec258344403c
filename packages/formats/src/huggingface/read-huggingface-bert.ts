import { type LogicalTensor, SafetensorsDirectory } from '@mtl/checkpoint';
import type { BertModelConfiguration, BertTask } from '@mtl/models';
import { chooseBertType, parseBertConfiguration } from './bert-configuration.js';
import {
  bertEmbedding,
  bertTaskWeightNames,
  bertWeightNames,
  taskHeadTensor,
} from './bert-weight-mappings.js';
import { checkHuggingFaceWeights } from './check-weight-sizes.js';
import { isConfigurationAlone } from './is-configuration-alone.js';
import type { JsonFields } from './json-fields.js';
import { modelTypes } from './model-types.js';
import { loadHuggingFaceWeights, openHuggingFaceDirectory } from './open-huggingface-directory.js';

/** A Hugging Face directory that contains a BERT or a RoFormer, opened for reading. */
export interface HuggingFaceBert {
  readonly directory: string;
  readonly configuration: BertModelConfiguration;
  /**
   * The dtype that config.json names, such as `float32` or `bfloat16`, if any. The weights may be stored in a
   * different dtype.
   */
  readonly dtype: string | undefined;
  /**
   * The paths of the tokenizer's files in the directory, by file name, as `writeHuggingFaceBert` takes them.
   */
  readonly tokenizerFiles: Readonly<Record<string, string>>;
  /**
   * Fills the given tensors, or slices of tensors, from the weights. For training, pass the master weights
   * (`weightTensors` of @mtl/trainer), then call `refreshModel`. For inference, pass
   * `parameterTensors(stage.parameters)`.
   *
   * @throws CheckpointError before anything is written: MTL_HUGGING_FACE_WEIGHTS when names, shapes or dtypes
   *   of the weights are wrong; MTL_HUGGING_FACE_SHAPE when the model was built from a different
   *   configuration; MTL_SAFETENSORS_*
   */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

/**
 * Reads a BERT directory of the transformers library: config.json, and weights in safetensors (one file, or
 * shards with their index). The saved model's class must be BertForPreTraining, BertForMaskedLM or
 * RoFormerForMaskedLM. Its layer norms follow the sublayers.
 *
 * @param options.makeVocabularySizeDivisibleBy pads our embedding to a multiple of this number of rows;
 *   default 128, as in Megatron-LM
 * @param options.sentenceOrderHead true to load the pooler and the sentence-order head. Default: true if the
 *   file has both
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG when config.json is missing, broken or needs an unsupported
 *   feature; MTL_HUGGING_FACE_WEIGHTS when names, shapes or dtypes of the weights do not match config.json;
 *   MTL_SAFETENSORS_*
 */
export async function readHuggingFaceBert(options: {
  readonly directory: string;
  readonly makeVocabularySizeDivisibleBy?: number;
  readonly sentenceOrderHead?: boolean;
}): Promise<HuggingFaceBert> {
  const { directory, makeVocabularySizeDivisibleBy = 128 } = options;
  const { fields, dtype, tokenizerFiles } = await openHuggingFaceDirectory(directory);
  // the configuration is parsed before the weights are opened, so that an unsupported feature is reported
  // even if the weights are missing
  const described = parseBertConfiguration(fields, {
    makeVocabularySizeDivisibleBy,
    sentenceOrderHead: true,
  });
  const sentenceOrderHead =
    options.sentenceOrderHead ?? (described.sentenceOrderHead && (await hasSentenceHead(directory)));
  const configuration = { ...described, sentenceOrderHead };
  const names = () => bertWeightNames(configuration);
  const stated = statedBy(fields, configuration);
  await checkHuggingFaceWeights({
    ...configuration,
    directory,
    ...bertEmbedding(configuration),
    stated,
    names,
  });
  return {
    directory,
    configuration,
    dtype,
    tokenizerFiles,
    load: (tensors) => loadHuggingFaceWeights({ directory, tensors, names: names() }),
  };
}

const statedBy = (fields: JsonFields, model: BertModelConfiguration) => ({
  fields,
  table: modelTypes[chooseBertType(model)].fields,
});

async function hasSentenceHead(directory: string): Promise<boolean> {
  if (isConfigurationAlone(directory)) return false;
  const weights = await SafetensorsDirectory.open(directory);
  try {
    return weights.tensors.has('cls.seq_relationship.weight');
  } finally {
    await weights.close();
  }
}

interface HuggingFaceBertForTask extends HuggingFaceBert {
  /**
   * The names of the parameters that the directory contains. All other parameters of a BertTaskStage keep
   * their initial values.
   */
  readonly parameterNames: ReadonlySet<string>;
}

/**
 * Reads a BERT directory of the transformers library for fine-tuning: a pretrained model with its heads, a
 * bare BertModel, or a fine-tuned model. The pooler and the head are loaded only if the directory has them
 * for this task.
 *
 * @param options.makeVocabularySizeDivisibleBy pads our embedding to a multiple of this number of rows;
 *   default 128, as in Megatron-LM
 * @throws CheckpointError the errors of `readHuggingFaceBert`
 */
export async function readHuggingFaceBertForTask(options: {
  readonly directory: string;
  readonly task: BertTask;
  readonly makeVocabularySizeDivisibleBy?: number;
}): Promise<HuggingFaceBertForTask> {
  const { directory, task, makeVocabularySizeDivisibleBy = 128 } = options;
  const { fields, dtype, tokenizerFiles } = await openHuggingFaceDirectory(directory);
  const configuration = parseBertConfiguration(fields, {
    makeVocabularySizeDivisibleBy,
    sentenceOrderHead: false,
  });
  const { source, shape } = taskHeadTensor(task, configuration);
  const has = await lookInto(directory, (weights) => {
    const find = (name: string) =>
      weights.tensors.get(name) ?? weights.tensors.get(`${chooseBertType(configuration)}.${name}`);
    return {
      pooler: task.kind !== 'span' && find('pooler.dense.weight') !== undefined,
      head: `${find(`${source}.weight`)?.shape}` === `${shape}`,
    };
  });
  await checkHuggingFaceWeights({
    ...configuration,
    directory,
    ...bertEmbedding(configuration),
    stated: statedBy(fields, configuration),
    names: () => bertTaskWeightNames(configuration, { task, has }),
  });
  const names = bertTaskWeightNames(configuration, { task, has });
  return {
    directory,
    configuration,
    dtype,
    tokenizerFiles,
    parameterNames: new Set(names.mappings.map(({ name }) => name)),
    load: (tensors) => loadHuggingFaceWeights({ directory, tensors, names }),
  };
}

async function lookInto<Result>(
  directory: string,
  look: (weights: SafetensorsDirectory) => Result,
): Promise<Result> {
  const weights = await SafetensorsDirectory.open(directory);
  try {
    return look(weights);
  } finally {
    await weights.close();
  }
}
