import { SafetensorsDirectory } from '@mtl/checkpoint';
import type { BertTask } from '@mtl/models';
import { bertTypeOf, parseBertConfiguration } from './bert-configuration.js';
import { bertEmbedding, bertTaskWeightNames, taskHeadTensor } from './bert-weight-mappings.js';
import { checkHuggingFaceWeights } from './check-huggingface-weights.js';
import { loadHuggingFaceWeights, openHuggingFaceDirectory } from './open-huggingface-directory.js';
import type { HuggingFaceBert } from './read-huggingface-bert.js';

export interface HuggingFaceBertForTask extends HuggingFaceBert {
  /** The parameters that the directory has; the others of a BertTaskStage keep their initial values. */
  readonly parameterNames: ReadonlySet<string>;
}

/**
 * Reads a BERT directory of the transformers library to fine-tune it: one of pretraining, a bare BertModel,
 * or one that was fine-tuned. Pooler and head are taken where they are there for this very task.
 *
 * @param options.makeVocabularySizeDivisibleBy padding of the embedding in our model; default 128, Megatron's
 * @throws CheckpointError as `readHuggingFaceBert` does
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
      weights.tensors.get(name) ?? weights.tensors.get(`${bertTypeOf(configuration)}.${name}`);
    return {
      pooler: task.kind !== 'span' && find('pooler.dense.weight') !== undefined,
      head: `${find(`${source}.weight`)?.shape}` === `${shape}`,
    };
  });
  await checkHuggingFaceWeights({
    ...configuration,
    directory,
    ...bertEmbedding(configuration),
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
