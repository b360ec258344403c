import { allocateParameters, initializeParameter } from '@mtl/autograd';
import { configure, describeGptModel, type RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { parameterTensors, writeHuggingFaceGpt } from '@mtl/formats';
import { gptParameters } from '@mtl/models';
import { createTokenizer } from '@mtl/tokenizers';

/** Writes the model of a run with initial values, as the base model of adapters. */
export async function writeBaseModel(options: RunOptions, directory: string): Promise<void> {
  const { vocabularySize } = await createTokenizer({ type: 'ByteLevelTokenizer' });
  const unused: RunOptions = {
    data: { dataPath: ['unused'], tokenizerType: 'ByteLevelTokenizer' },
    training: { globalBatchSize: 1, microBatchSize: 1, trainIterations: 1 },
  };
  const model = describeGptModel(configure(mergeOptions(options, unused)).model, vocabularySize);
  const parameters = gptParameters(model);
  const storage = allocateParameters(parameters, { device: 'cpu', dtype: 'float32' });
  for (const parameter of parameters) initializeParameter(parameter, parameter.data, 7);
  await writeHuggingFaceGpt({ directory, model, tensors: parameterTensors(parameters) });
  storage.dispose();
}
