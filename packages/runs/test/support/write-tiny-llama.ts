import { allocateParameters, initializeParameter } from '@mtl/autograd';
import type { RunOptions } from '@mtl/configuration';
import { parameterTensors, type WriteHuggingFaceGptOptions, writeHuggingFaceGpt } from '@mtl/formats';
import { type GptModelConfiguration, gptParameters } from '@mtl/models';
import { exportTokenizer } from '@mtl/tokenizers';

/** The architecture: grouped heads, and a vocabulary of all bytes and some further tokens. */
const llama: GptModelConfiguration = {
  numLayers: 2,
  hiddenSize: 24,
  ffnHiddenSize: 40,
  numAttentionHeads: 4,
  kvChannels: 10,
  groupQueryAttention: true,
  numQueryGroups: 2,
  positionEmbeddingType: 'rope',
  maxPositionEmbeddings: 32,
  vocabularySize: 270,
  makeVocabularySizeDivisibleBy: 128,
  normalization: 'RMSNorm',
  swiglu: true,
  addBiasLinear: false,
  tieEmbeddings: true,
  layerNormEpsilon: 1e-5,
  geluKind: 'tanh',
  hiddenDropout: 0,
  attentionDropout: 0,
  initMethodStd: 0.1,
};

/** Options without the settings that a training run reads from the directory. */
export const takenFromDirectory: RunOptions = {
  model: {
    numLayers: undefined,
    hiddenSize: undefined,
    numAttentionHeads: undefined,
    maxPositionEmbeddings: undefined,
    attentionDropout: undefined,
    hiddenDropout: undefined,
  },
  data: { tokenizerType: undefined },
};

export interface WriteTinyLlamaOptions
  extends Pick<WriteHuggingFaceGptOptions, 'directory' | 'dtype' | 'origin' | 'maxShardBytes'> {
  /** Settings that replace the settings of a plain Llama. */
  readonly changes?: Partial<GptModelConfiguration>;
  /** Contents by name, in addition to the files of the byte tokenizer. */
  readonly otherFiles?: Readonly<Record<string, string>>;
}

/**
 * Writes a Llama of two layers with initial values as a directory of the transformers library.
 *
 * @returns the names of the files that are not weights or configuration
 */
export async function writeTinyLlama(options: WriteTinyLlamaOptions): Promise<readonly string[]> {
  const { changes, otherFiles, ...rest } = options;
  const model = { ...llama, ...changes };
  const parameters = gptParameters(model);
  const storage = allocateParameters(parameters, { device: 'cpu', dtype: 'float32' });
  for (const parameter of parameters) initializeParameter(parameter, parameter.data, 7);
  const files = { ...(await exportTokenizer({ type: 'ByteLevelTokenizer' })), ...otherFiles };
  await writeHuggingFaceGpt({
    ...rest,
    model,
    tensors: parameterTensors(parameters),
    tokenizerFiles: Object.fromEntries(Object.entries(files).map(([name, contents]) => [name, { contents }])),
  });
  storage.dispose();
  return Object.keys(files);
}
