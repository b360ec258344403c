import { isDeepStrictEqual } from 'node:util';
import { type LogicalTensor, saveCheckpoint } from '@mtl/checkpoint';
import {
  configure,
  type Flags,
  type ModelKind,
  optionsOfFlags,
  type PretrainingConfiguration,
  saveConfiguration,
} from '@mtl/configuration';
import { findPresets, pickFields } from '@mtl/configuration/internal';
import { architectureFlags } from '@mtl/configuration/saved';
import { CheckpointError } from '@mtl/errors';
import {
  checkOptions,
  type OptionChecks,
  required,
  switchOption,
  textOption,
  wholeNumberOption,
} from '@mtl/errors/options';
import { type HuggingFaceOrigin, huggingFaceModelKind, type MegatronModel, readMegatron } from '@mtl/formats';
import type { TransformerConfiguration } from '@mtl/models';
import { LossScaler, type ModelOptimizer } from '@mtl/optimizer';
import { createTokenizer, type TokenizerOptions } from '@mtl/tokenizers';
import { optimizerTensors, type TrainingProgress, trainingState, weightTensors } from '@mtl/trainer';
import { trainingOptimizer } from '../../parts/models/build-stages.js';
import { layersOfChunks } from '../../parts/models/chunk-layers.js';
import { findRecipe } from '../../parts/models/find-recipe.js';
import { TrainingProcesses } from '../../parts/ranks/training-processes.js';
import { refuseCheckpoints } from '../checkpoints/checkpoint-places.js';
import { fetchFromHub } from '../hub/fetch-from-hub.js';
import { iterationOption, noticesOption } from '../option-checks.js';
import { tokenizerOfHuggingFace } from '../tokenizers/hugging-face-tokenizers.js';

/** A new directory of checkpoints. */
export interface BegunCheckpoint {
  readonly path: string;
  readonly kind: ModelKind;
  /** The tokenizer of the original model, if any. */
  readonly tokenizer: TokenizerOptions | undefined;
  readonly vocabularySize: number;
  /** The name of the kind of model in the `transformers` library, such as `gpt2`. */
  readonly modelType: unknown;
}

interface HuggingFaceToCheckpointOptions {
  /** The path of a directory, or the name of a model on the Hub, which is downloaded. */
  readonly loadHuggingFace: string;
  readonly directory: string;
  readonly onNotice: (notice: string) => void;
}

const checksOfHuggingFace: OptionChecks<HuggingFaceToCheckpointOptions> = {
  loadHuggingFace: required(textOption),
  directory: required(textOption),
  onNotice: required(noticesOption),
};

/**
 * Creates a directory of checkpoints from a transformers directory with a GPT-2, a Llama or a derived model,
 * or a BERT with its pretraining heads. The checkpoint in it has iteration 0 and a fresh optimizer.
 *
 * @throws ConfigurationError MTL_OPTION; CheckpointError MTL_CHECKPOINT_EXISTS if the directory already
 *   contains checkpoints; MTL_HUGGING_FACE_*; the errors of `tokenizerOfHuggingFace`
 */
export async function huggingFaceToCheckpoint(
  options: HuggingFaceToCheckpointOptions,
): Promise<BegunCheckpoint> {
  checkOptions(options, { of: 'huggingFaceToCheckpoint', checks: checksOfHuggingFace });
  const { directory, onNotice } = options;
  await refuseCheckpoints(directory, { remedy: 'choose another name' });
  const asked = { loadHuggingFace: options.loadHuggingFace };
  const { loadHuggingFace } = await fetchFromHub(asked, { onMessage: onNotice });
  const kind: ModelKind = await huggingFaceModelKind(loadHuggingFace);
  const found = await findRecipe({ kind }).openHuggingFace(configurationOfWholeModel(kind), loadHuggingFace);
  for (const notice of found.notices ?? []) onNotice(notice);
  const { configuration: model, origin, load } = found;
  const tokenizer = tokenizerOfHuggingFace(found.tokenizerFiles);
  const path = await beginCheckpoint(directory, {
    kind,
    model,
    load,
    origin,
    tokenizerOptions: tokenizer,
    refused: {
      code: 'MTL_HUGGING_FACE_CONFIG',
      remedy: `use ${loadHuggingFace} as it is, with --load-hf`,
    },
  });
  const modelType = origin?.config.model_type;
  return { path, kind, tokenizer, vocabularySize: model.vocabularySize, modelType };
}

interface MegatronToCheckpointOptions {
  /** The directory to which Megatron-LM has saved, or the checkpoint of one iteration in it. */
  readonly megatron: string;
  /** The iteration there. Default: the latest. */
  readonly step?: number | undefined;
  /** The number of tokens without padding. Default: the number in the checkpoint's `args`. */
  readonly vocabularySize?: number | undefined;
  /** False: only the weights. Default: true. */
  readonly loadOptimizer?: boolean | undefined;
  readonly directory: string;
  readonly onNotice: (notice: string) => void;
}

const checksOfMegatron: OptionChecks<MegatronToCheckpointOptions> = {
  megatron: required(textOption),
  step: iterationOption,
  vocabularySize: wholeNumberOption(1),
  loadOptimizer: switchOption,
  directory: required(textOption),
  onNotice: required(noticesOption),
};

/**
 * Creates a directory of checkpoints from a Megatron-LM checkpoint, with the weights, AdamW's state and the
 * iteration. If the state of any weight is missing, the result has iteration 0 and a fresh optimizer.
 *
 * @throws ConfigurationError MTL_OPTION; CheckpointError MTL_CHECKPOINT_EXISTS if the directory already
 *   contains checkpoints; MTL_MEGATRON_*, MTL_TORCH_FILE_INVALID
 */
export async function megatronToCheckpoint(
  options: MegatronToCheckpointOptions,
): Promise<BegunCheckpoint & { readonly source: string }> {
  checkOptions(options, { of: 'megatronToCheckpoint', checks: checksOfMegatron });
  const { megatron, step, vocabularySize, directory, onNotice, loadOptimizer = true } = options;
  await refuseCheckpoints(directory, { remedy: 'choose another name' });
  const found = await readMegatron({
    directory: megatron,
    step,
    vocabularySize,
    weightsOnly: !loadOptimizer,
  });
  try {
    for (const notice of found.notices) onNotice(notice);
    const { kind, configuration: model, load } = found;
    const path = await beginCheckpoint(directory, {
      kind,
      model,
      load,
      tokenizerOptions: undefined,
      trained: describeTrainedState(found),
      refused: {
        code: 'MTL_MEGATRON_ARGUMENTS',
        remedy: 'convert a model that gpt-train or bert-train can express',
      },
    });
    const own = { tokenizer: undefined, vocabularySize: model.vocabularySize, modelType: undefined };
    return { path, kind, ...own, source: found.path };
  } finally {
    await found.close();
  }
}

function describeTrainedState(found: MegatronModel): TrainedState | undefined {
  const { optimizer, iteration, consumedSamples, consumedTokens } = found;
  if (optimizer === undefined) return undefined;
  return {
    progress: { iteration, consumedSamples, consumedTokens },
    optimizerSteps: optimizer.steps,
    loadOptimizer: optimizer.load,
  };
}

/** The state of a model's training. */
interface TrainedState {
  readonly progress: TrainingProgress;
  readonly optimizerSteps: number;
  /** Fills the tensors of the optimizer's state. */
  loadOptimizer(tensors: readonly LogicalTensor[]): Promise<void>;
}

/** The model from which the first checkpoint in a directory is made. */
interface ModelToBegin {
  readonly kind: ModelKind;
  readonly model: TransformerConfiguration;
  load(tensors: readonly LogicalTensor[]): Promise<void>;
  /** The tokenizer of the original model, if any. */
  readonly tokenizerOptions: TokenizerOptions | undefined;
  /** Further fields from a Hugging Face directory. */
  readonly origin?: HuggingFaceOrigin | undefined;
  /** The state of a training run to continue. Default: iteration 0 and a fresh optimizer. */
  readonly trained?: TrainedState | undefined;
  /** The error for a model that flags cannot express. */
  readonly refused: {
    readonly code: `MTL_${string}`;
    readonly remedy: string;
  };
}

/**
 * Returns a configuration for reading the complete model with all its heads, even if the preset leaves out
 * some heads.
 */
const configurationOfWholeModel = (kind: ModelKind): PretrainingConfiguration => {
  const heads = kind === 'bert' ? { 'bert-no-binary-head': false } : {};
  return makeConfiguration(kind, heads);
};

/** Makes a configuration from flags. The preset fills in the remaining required flags. */
const makeConfiguration = (kind: ModelKind, flags: Flags): PretrainingConfiguration => {
  const { model, ...others } = optionsOfFlags(flags);
  return configure({ preset: findPresets(kind).whenNothingIsAsked, ...others, model: { ...model, kind } });
};

/**
 * Creates a directory of checkpoints with the weights of a model. The checkpoint has iteration 0 and a fresh
 * optimizer, unless `trained` contains the state of a training run.
 *
 * @returns the path of the checkpoint
 */
export async function beginCheckpoint(directory: string, begun: ModelToBegin): Promise<string> {
  const { kind, model, load, tokenizerOptions, origin, trained } = begun;
  const recipe = findRecipe({ kind });
  const configuration = makeConfiguration(kind, {
    // other programs save AdamW's state, and a training run without --optimizer continues with AdamW
    optimizer: 'adam',
    ...ownFlags(kind, model),
  });
  refuseOtherModel(recipe.describeModel(configuration, model.vocabularySize), begun);
  const tokenizer = tokenizerOptions && (await createTokenizer(tokenizerOptions));
  const work = recipe.embeddingAndHeadCost(configuration, model);
  const { parameters, units } = recipe.buildStages({
    ...({ model, device: 'cpu', dtype: 'float32', seed: 0, placement: [0], rank: 0 } as const),
    layers: layersOfChunks(configuration, { model, work, numChunks: 1 }),
  });
  const optimizer: ModelOptimizer = trainingOptimizer({
    ...({ configuration, parameters, units, device: 'cpu', dtype: 'float32', initializes: false } as const),
    chunks: new Map([[0, parameters]]),
    processes: new TrainingProcesses({ world: undefined, parallel: configuration.parallel }),
  });
  try {
    await load(weightTensors(optimizer));
    await trained?.loadOptimizer(optimizerTensors(optimizer));
    optimizer.numSteps = trained?.optimizerSteps ?? 0;
    const progress = trained?.progress ?? { iteration: 0, consumedSamples: 0, consumedTokens: 0 };
    const { path } = await saveCheckpoint({
      directory,
      iteration: progress.iteration,
      // includes the optimizer's moments, so that a training run can continue from this checkpoint
      tensors: [...weightTensors(optimizer), ...optimizerTensors(optimizer)],
      state: trainingState({
        progress,
        optimizer,
        lossScaler: new LossScaler(configuration.optimizer.lossScale),
        configuration: await saveConfiguration({
          directory,
          // this conversion trained nothing, so the preset's flags do not describe the model
          configuration: { ...configuration, preset: 'none', flags: ownFlags(kind, model) },
          model,
          tokenizer,
          data: undefined,
          huggingFace: origin,
        }),
      }),
    });
    return path;
  } finally {
    optimizer.dispose();
  }
}

function ownFlags(kind: ModelKind, model: TransformerConfiguration): Flags {
  return { ...architectureFlags({ kind, model }), 'seq-length': model.maxPositionEmbeddings };
}

/** Rejects a model that a training run's flags cannot express, such as a model with three token types. */
function refuseOtherModel(trained: TransformerConfiguration, { model, refused }: ModelToBegin): void {
  // settings of training, not of the model
  const wanted = Object.entries({ ...model, ...pickFields(trained, ['learning', 'initial-weights']) });
  const known = new Map(Object.entries(trained));
  const differing = wanted.filter(([key, value]) => !isDeepStrictEqual(known.get(key), value));
  if (differing.length === 0) return;
  const listed = differing.map(([key, value]) => `${key} ${value}`).join(', ');
  throw new CheckpointError(refused.code, `no training knows a model of ${listed}`, {
    expected: differing.map(([key]) => `${key} ${known.get(key)}`).join(', '),
    remedy: refused.remedy,
    exitCode: 2,
  });
}
