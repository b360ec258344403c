import { allocateParameters, type Parameter } from '@mtl/autograd';
import type { LogicalTensor } from '@mtl/checkpoint';
import type { TrainedOn } from '@mtl/configuration/saved';
import { checkSharedModel, modelSharing } from '@mtl/configuration/strategies';
import { UsageError } from '@mtl/errors';
import {
  checkOptions,
  choiceOption,
  type OptionChecks,
  objectOption,
  required,
  textOption,
} from '@mtl/errors/options';
import type { CausalLanguageModel } from '@mtl/inference';
import { cast, type Device, type DType, devices, dtypes, Tensor } from '@mtl/kernels';
import { lentMemory } from '@mtl/kernels/internal';
import {
  buildGptStages,
  GptLanguageModel,
  type GptModelConfiguration,
  type GptStage,
  type GptStages,
  gptEmbeddingAndHeadCost,
  type PipelinedGpt,
  partitionLayers,
} from '@mtl/models';
import { createTokenizer, type Tokenizer, type TokenizerOptions } from '@mtl/tokenizers';
import { checkTokenizerFits } from '../../parts/models/training-model.js';
import { openDeviceOfRank } from '../../parts/ranks/join-processes.js';
import { processesOption } from '../../parts/ranks/option-checks.js';
import type { TrainingProcesses } from '../../parts/ranks/training-processes.js';
import { fetchFromHub } from '../hub/fetch-from-hub.js';
import { noticesOption } from '../option-checks.js';
import {
  type GptWeights,
  type OpenGptWeightsOptions,
  openGptWeights,
  weightsOptions,
} from './open-gpt-weights.js';

interface LoadGptForInferenceOptions extends OpenGptWeightsOptions {
  readonly device: Device;
  /** Dtype of the computation. Default: float32. */
  readonly dtype?: DType | undefined;
  /** A tokenizer to use instead of the model's own tokenizer. */
  readonly tokenizer?: TokenizerOptions | undefined;
  /**
   * The processes that share the model along the axes tp and pp, and its experts along ep and etp. All
   * processes must load the model and make the same calls. Default: a single process.
   */
  readonly processes?: TrainingProcesses | undefined;
}

const checks: OptionChecks<LoadGptForInferenceOptions> = {
  ...weightsOptions,
  device: required(choiceOption(devices)),
  dtype: choiceOption(dtypes),
  tokenizer: objectOption('the options of a tokenizer: an object with its type', {
    type: required(textOption),
  }),
  processes: processesOption,
  onNotice: required(noticesOption),
};

/** A trained model that can generate and score texts. */
export interface LoadedGpt {
  readonly model: GptLanguageModel & CausalLanguageModel<ReturnType<GptLanguageModel['newCache']>>;
  /** Undefined if the model has no tokenizer and the caller passed none. */
  readonly tokenizer: Tokenizer | undefined;
  readonly configuration: GptModelConfiguration;
  /** The ids of the tokens that end a text. */
  readonly endTokens: readonly number[];
  /** The sequence length in training, in tokens. */
  readonly sequenceLength: number;
  /** The model's training data, if the checkpoint records it. */
  readonly data: TrainedOn | undefined;
  /** The path of the checkpoint or directory of the model. */
  readonly path: string;
  /** The parameters of the model, with their values in the compute dtype. */
  readonly parameters: readonly Parameter[];
  dispose(): void;
  [Symbol.dispose](): void;
}

/**
 * Loads a trained model, with its architecture and tokenizer, from a directory of checkpoints or from a
 * Hugging Face directory. If the name of a model on the Hub (`org/name`) is given instead of a directory,
 * this model is downloaded.
 *
 * @throws the errors of `openGptWeights`; ConfigurationError MTL_OPTION, MTL_TOKENIZER_MODEL,
 *   MTL_TENSOR_PARALLEL_SIZE, MTL_EXPERT_PARALLEL_SIZE, MTL_FLAG_NEEDS; the errors of `openDevice` and
 *   `createTokenizer`
 */
export async function loadGptForInference(options: LoadGptForInferenceOptions): Promise<LoadedGpt> {
  checkOptions(options, { of: 'loadGptForInference', checks });
  const { device, dtype = 'float32' } = options;
  openDeviceOfRank(device, { localRank: 0 }); // already open if several processes share the model
  const { places, tokenizer: chosen } = await findPlaces(options);
  const weights = await openGptWeights({ ...options, ...places });
  const { sizes } = options.processes?.mesh ?? {};
  if (sizes !== undefined) checkSharedModel(weights.model, { sizes, path: weights.path });
  const tokenizerOptions = chosen ?? weights.tokenizer();
  const tokenizer = tokenizerOptions === undefined ? undefined : await createTokenizer(tokenizerOptions);
  if (tokenizer !== undefined) checkTokenizerFits({ tokenizer, model: weights.model, from: weights.path });
  const { whole, stages, parameters } = createPart(weights, { device, dtype, processes: options.processes });
  // loading fills every parameter, so the memory need not be set to zero first
  const storage = allocateParameters(parameters, { device, dtype, zeroed: false });
  const dispose = (): void => {
    for (const stage of stages.values()) stage.dispose();
    storage.dispose();
  };
  try {
    await weights.load(parameters.map(float32Tensor));
  } catch (error) {
    dispose();
    throw error;
  }
  const { path, endTokens, sequenceLength, data } = weights;
  return {
    model: new GptLanguageModel(whole),
    tokenizer,
    configuration: weights.model,
    endTokens: endTokens ?? (tokenizer === undefined ? [] : [tokenizer.eod]),
    sequenceLength,
    data,
    path,
    parameters,
    dispose,
    [Symbol.dispose]: dispose,
  };
}

/**
 * Downloads models from the Hub, and returns the directories of the model and the options of the tokenizer.
 */
async function findPlaces(options: LoadGptForInferenceOptions): Promise<{
  readonly places: Pick<OpenGptWeightsOptions, 'loadHuggingFace' | 'loadLora'>;
  readonly tokenizer: TokenizerOptions | undefined;
}> {
  const { loadHuggingFace, loadLora, tokenizer, processes, onNotice } = options;
  const isFile = tokenizer?.type === 'HuggingFaceTokenizer';
  const { tokenizerModel, ...places } = await fetchFromHub(
    { loadHuggingFace, loadLora, tokenizerModel: isFile ? tokenizer.tokenizerModel : undefined },
    { group: processes?.groups.world, onMessage: onNotice },
  );
  const isFound = isFile && tokenizerModel !== undefined;
  return { places, tokenizer: isFound ? { ...tokenizer, tokenizerModel } : tokenizer };
}

/**
 * Returns this process's part of the model: the complete model, or one pipeline stage with this process's
 * shard of every layer.
 */
function createPart(
  { model, sequenceLength }: GptWeights,
  options: {
    readonly device: Device;
    readonly dtype: DType;
    readonly processes: TrainingProcesses | undefined;
  },
): Pick<GptStages, 'stages' | 'parameters'> & { readonly whole: GptStage | PipelinedGpt } {
  const { device, dtype, processes } = options;
  const { groups = {} } = processes ?? {};
  const { pp } = groups;
  const placement = Array.from({ length: pp?.size ?? 1 }, (_, rank) => rank);
  const { stages, parameters } = buildGptStages({
    model,
    device,
    dtype,
    placement,
    seed: 0,
    rank: pp?.rank ?? 0,
    layers: partitionLayers({
      numLayers: model.numLayers,
      numChunks: placement.length,
      layout: 'balanced',
      work: gptEmbeddingAndHeadCost(model, sequenceLength),
    }),
    ...modelSharing({ groups }),
  });
  const whole = pp === undefined ? stages.get(0)! : { stages, placement, group: pp };
  return { whole, stages, parameters };
}

/** Returns a parameter as a tensor that accepts float32 values and rounds them to the parameter's dtype. */
function float32Tensor(parameter: Parameter): LogicalTensor {
  const { data, size, shape } = parameter;
  const write = (values: Float32Array): void => {
    if (data.dtype === 'float32') {
      data.write(values);
      return;
    }
    using exact = Tensor.from(values, { shape, dtype: 'float32', device: data.device });
    cast({ output: data, input: exact });
  };
  return {
    name: parameter.name,
    dtype: 'F32',
    globalShape: parameter.globalShape,
    slices: parameter.slices,
    read: () => {
      throw new UsageError('MTL_LOAD_ONLY', `${parameter.name} is here to be loaded, not to be read`);
    },
    write: (bytes) => {
      // the bytes are copied if their address is not aligned for floats
      const aligned = bytes.byteOffset % 4 === 0 ? bytes : Uint8Array.from(bytes);
      write(new Float32Array(aligned.buffer, aligned.byteOffset, size));
    },
    ...(data.dtype === 'float32' ? lentMemory(data) : {}),
  };
}
