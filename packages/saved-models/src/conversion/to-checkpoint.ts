import { isDeepStrictEqual } from 'node:util';
import { type LogicalTensor, saveCheckpoint } from '@mtl/checkpoint';
import {
  architectureFlags,
  configure,
  type Flags,
  type ModelKind,
  optionsOfFlags,
  type PretrainingConfiguration,
  pickFields,
  presetsOf,
  saveConfiguration,
} from '@mtl/configuration';
import { createTokenizer, type TokenizerOptions } from '@mtl/data';
import { CheckpointError } from '@mtl/errors';
import type { HuggingFaceOrigin } from '@mtl/formats';
import type { TransformerConfiguration } from '@mtl/models';
import { LossScaler, type ModelOptimizer } from '@mtl/optimizer';
import { TrainingProcesses } from '@mtl/run-parts';
import { layersOfChunks, recipeOf, trainingOptimizer } from '@mtl/run-parts/internal';
import { optimizerTensors, type TrainingProgress, trainingState, weightTensors } from '@mtl/trainer';

/** How far a model was trained. */
export interface TrainedState {
  readonly progress: TrainingProgress;
  readonly optimizerSteps: number;
  /** Fills the tensors of the optimizer's state. */
  loadOptimizer(tensors: readonly LogicalTensor[]): Promise<void>;
}

/** A model whose weights begin a directory of checkpoints. */
export interface ModelToBegin {
  readonly kind: ModelKind;
  readonly model: TransformerConfiguration;
  load(tensors: readonly LogicalTensor[]): Promise<void>;
  /** The tokenizer that came with the model, if one did. */
  readonly tokenizerOptions: TokenizerOptions | undefined;
  /** What else came from a Hugging Face directory. */
  readonly origin?: HuggingFaceOrigin | undefined;
  /** Where a training run stands that is continued. Default: iteration 0, a fresh optimizer. */
  readonly trained?: TrainedState | undefined;
  /** The error for a model that flags cannot express. */
  readonly refused: {
    readonly code: `MTL_${string}`;
    readonly remedy: string;
  };
}

/**
 * A configuration with which all of a model is read: the heads that it has, whatever the preset leaves out.
 */
export const configurationOfWholeModel = (kind: ModelKind): PretrainingConfiguration => {
  const heads = kind === 'bert' ? { 'bert-no-binary-head': false } : {};
  return configurationOf(kind, heads);
};

/** The preset gives what a configuration needs and the flags do not have. */
const configurationOf = (kind: ModelKind, flags: Flags): PretrainingConfiguration => {
  const { model, ...others } = optionsOfFlags(flags);
  return configure({ preset: presetsOf(kind).whenNothingIsAsked, ...others, model: { ...model, kind } });
};

/**
 * Begins a directory of checkpoints with the weights of a model: iteration 0 and a fresh optimizer, unless it
 * was `trained`.
 *
 * @returns the path of the checkpoint
 */
export async function beginCheckpoint(directory: string, begun: ModelToBegin): Promise<string> {
  const { kind, model, load, tokenizerOptions, origin, trained } = begun;
  const recipe = recipeOf({ kind });
  const configuration = configurationOf(kind, {
    // AdamW's state is what other programs save, and what a training run without --optimizer goes on with
    optimizer: 'adam',
    ...ownFlags(kind, model),
  });
  refuseOtherModel(recipe.modelOf(configuration, model.vocabularySize), begun);
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
      // the optimizer's moments too, so that a training run goes on from here as from any other checkpoint
      tensors: [...weightTensors(optimizer), ...optimizerTensors(optimizer)],
      state: trainingState({
        progress,
        optimizer,
        lossScaler: new LossScaler(configuration.optimizer.lossScale),
        configuration: await saveConfiguration({
          directory,
          // nothing was trained: the preset's flags are not this model's
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

/** What the flags of a training run cannot express, such as three kinds of tokens. */
function refuseOtherModel(trained: TransformerConfiguration, { model, refused }: ModelToBegin): void {
  // how it was trained, not what it is
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
