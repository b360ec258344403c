import { saveCheckpoint } from '@mtl/checkpoint';
import {
  architectureFlags,
  type Flags,
  type ModelKind,
  parseFlags,
  pickFields,
  presetsOf,
  saveConfiguration,
  validateConfiguration,
} from '@mtl/configuration';
import { createTokenizer, type TokenizerOptions } from '@mtl/data';
import { CheckpointError } from '@mtl/errors';
import { huggingFaceModelKind, type TransformerConfiguration } from '@mtl/models';
import { LossScaler } from '@mtl/optimizer';
import { optimizerTensors, trainingState, weightTensors } from '@mtl/trainer';
import { refuseCheckpoints } from '../checkpoints/refuse-checkpoints.js';
import { layersOfChunks } from '../models/layers-of-chunks.js';
import { recipeOf } from '../models/recipe-of.js';
import { trainingOptimizer } from '../training/training-optimizer.js';
import { TrainingProcesses } from '../training/training-processes.js';
import { tokenizerOfHuggingFace } from './tokenizer-of-hugging-face.js';

/** A checkpoint that was begun. */
export interface BegunCheckpoint {
  readonly path: string;
  readonly kind: ModelKind;
  /** The tokenizer that came with the model, if one did. */
  readonly tokenizer: TokenizerOptions | undefined;
  readonly vocabularySize: number;
  /** What transformers calls the kind of the model, such as `gpt2`. */
  readonly modelType: unknown;
}

/**
 * Begins a directory of checkpoints with the weights of a directory of the transformers library, a GPT-2, a
 * Llama or a model after it, or a BERT with the heads of its pretraining: iteration 0, a fresh optimizer.
 *
 * @throws CheckpointError MTL_CHECKPOINT_EXISTS when there are checkpoints already; MTL_HUGGING_FACE_*
 */
export async function huggingFaceToCheckpoint(options: {
  readonly loadHuggingFace: string;
  readonly directory: string;
  readonly onNotice: (notice: string) => void;
}): Promise<BegunCheckpoint> {
  const { loadHuggingFace, directory, onNotice } = options;
  await refuseCheckpoints(directory, { remedy: 'choose another name' });
  const kind: ModelKind = await huggingFaceModelKind(loadHuggingFace);
  const recipe = recipeOf({ kind });
  const configurationOf = (flags: readonly string[]) =>
    validateConfiguration(parseFlags(flags, { model: kind }));
  const preset = ['--preset', presetsOf(kind).whenNothingIsAsked];
  const found = await recipe.openHuggingFace(configurationOf(preset), loadHuggingFace);
  for (const notice of found.notices ?? []) onNotice(notice);
  const model = found.configuration;
  const configuration = configurationOf(commandLineOf(kind, model));
  refuseOtherModel(recipe.modelOf(configuration, model.vocabularySize), { model, loadHuggingFace });

  const tokenizerOptions = tokenizerOfHuggingFace(found.tokenizerFiles);
  const tokenizer = tokenizerOptions && (await createTokenizer(tokenizerOptions));
  const work = recipe.embeddingAndHeadCost(configuration, model);
  const { parameters } = recipe.buildStages({
    ...({ model, device: 'cpu', dtype: 'float32', seed: 0, placement: [0], rank: 0 } as const),
    layers: layersOfChunks(configuration, { model, work, numChunks: 1 }),
  });
  const optimizer = trainingOptimizer({
    ...({ configuration, parameters, device: 'cpu', dtype: 'float32', initializes: false } as const),
    chunks: new Map([[0, parameters]]),
    processes: new TrainingProcesses({ world: undefined, parallel: configuration.parallel }),
  });
  try {
    await found.load(weightTensors(optimizer));
    const { path } = await saveCheckpoint({
      directory,
      iteration: 0,
      // the optimizer's moments too, so that a training run goes on from here as from any other checkpoint
      tensors: [...weightTensors(optimizer), ...optimizerTensors(optimizer)],
      state: trainingState({
        progress: { iteration: 0, consumedSamples: 0, consumedTokens: 0 },
        optimizer,
        lossScaler: new LossScaler(configuration.optimizer.lossScale),
        configuration: await saveConfiguration({
          directory,
          // nothing was trained: the preset's flags are not this model's
          configuration: { ...configuration, preset: 'none', flags: ownFlags(kind, model) },
          model,
          tokenizer,
          data: undefined,
          huggingFace: found.origin,
        }),
      }),
    });
    const modelType = found.origin?.config.model_type;
    return { path, kind, tokenizer: tokenizerOptions, vocabularySize: model.vocabularySize, modelType };
  } finally {
    optimizer.dispose();
    optimizer.buffers.dispose();
  }
}

function ownFlags(kind: ModelKind, model: TransformerConfiguration): Flags {
  return { ...architectureFlags({ kind, model }), 'seq-length': model.maxPositionEmbeddings };
}

/** A command line for this model; the preset gives what else a configuration needs. */
function commandLineOf(kind: ModelKind, model: TransformerConfiguration): readonly string[] {
  const words = Object.entries(ownFlags(kind, model)).flatMap(([name, value]) =>
    value === true ? [`--${name}`] : value === false ? [`--no-${name}`] : [`--${name}`, `${value}`],
  );
  return ['--preset', presetsOf(kind).whenNothingIsAsked, ...words];
}

/** What the flags of a training run cannot express, such as three kinds of tokens. */
function refuseOtherModel(
  trained: TransformerConfiguration,
  options: { readonly model: TransformerConfiguration; readonly loadHuggingFace: string },
): void {
  const { model, loadHuggingFace } = options;
  // how it was trained, not what it is
  const wanted = Object.entries({ ...model, ...pickFields(trained, ['learning', 'initial-weights']) });
  const known = new Map(Object.entries(trained));
  const differing = wanted.filter(([key, value]) => known.get(key) !== value);
  if (differing.length === 0) return;
  const listed = differing.map(([key, value]) => `${key} ${value}`).join(', ');
  throw new CheckpointError('MTL_HUGGING_FACE_CONFIG', `no training knows a model of ${listed}`, {
    expected: differing.map(([key]) => `${key} ${known.get(key)}`).join(', '),
    remedy: `use ${loadHuggingFace} as it is, with --load-hf`,
    exitCode: 2,
  });
}
