import { saveCheckpoint } from '@mtl/checkpoint';
import { createTokenizer } from '@mtl/data';
import { CheckpointError } from '@mtl/errors';
import {
  type BertModelConfiguration,
  type GptModelConfiguration,
  huggingFaceModelType,
  type TransformerConfiguration,
} from '@mtl/models';
import { LossScaler } from '@mtl/optimizer';
import { optimizerTensors, trainingState, weightTensors } from '@mtl/trainer';
import { parseFlags } from '../flags/parse-flags.js';
import type { ModelKind } from '../model-kind.js';
import { validateConfiguration } from '../validate-configuration.js';
import { huggingFaceTokenizer } from './hugging-face-tokenizer.js';
import { layersOfChunks } from './layers-of-chunks.js';
import { recipeOf } from './recipe-of.js';
import { refuseCheckpoints } from './refuse-checkpoints.js';
import { saveConfiguration } from './saved-configuration.js';
import { trainingOptimizer } from './training-optimizer.js';
import { TrainingProcesses } from './training-processes.js';

/** A checkpoint that was begun. */
export interface BegunCheckpoint {
  readonly path: string;
  readonly kind: ModelKind;
  /** Flags with which a training goes on from it. */
  readonly flags: readonly string[];
}

const kinds: Readonly<Record<string, ModelKind>> = { gpt2: 'gpt', bert: 'bert' };

/**
 * Begins a directory of checkpoints with the weights of a directory of the transformers library, a GPT-2 or a
 * BERT with the heads of its pretraining: iteration 0, a fresh optimizer.
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
  const kind = await kindOf(loadHuggingFace);
  const recipe = recipeOf({ kind });
  const configurationOf = (flags: readonly string[]) =>
    validateConfiguration(parseFlags(flags, { model: kind }));
  const found = await recipe.openHuggingFace(configurationOf([]), loadHuggingFace);
  for (const notice of found.notices ?? []) onNotice(notice);
  const model = found.configuration;
  const modelOf = (flags: readonly string[]) => recipe.modelOf(configurationOf(flags), model.vocabularySize);
  const flags = flagsOf({ kind, model, modelOf });
  const configuration = configurationOf(flags);
  refuseOtherModel(modelOf(flags), { model, loadHuggingFace });

  const tokenizerOptions = huggingFaceTokenizer(found.tokenizerFiles);
  const tokenizer = tokenizerOptions && (await createTokenizer(tokenizerOptions));
  const work = recipe.endsWork(configuration, model);
  const { parameters } = recipe.buildStages({
    ...({ model, device: 'cpu', dtype: 'float32', seed: 0, placement: [0], rank: 0 } as const),
    layers: layersOfChunks(configuration, { model, work, numChunks: 1 }),
  });
  const optimizer = trainingOptimizer({
    ...({ configuration, parameters, device: 'cpu', dtype: 'float32', initializes: false } as const),
    pieces: new Map([[0, parameters]]),
    processes: new TrainingProcesses({ world: undefined, parallel: configuration.parallel }),
  });
  try {
    await found.load(weightTensors(optimizer));
    const { path } = await saveCheckpoint({
      directory,
      iteration: 0,
      // the optimizer's moments too, so that a training goes on from here as from any other checkpoint
      tensors: [...weightTensors(optimizer), ...optimizerTensors(optimizer)],
      state: trainingState({
        progress: { iteration: 0, consumedSamples: 0, consumedTokens: 0 },
        optimizer,
        lossScaler: new LossScaler(configuration.optimizer.lossScale),
        configuration: await saveConfiguration({
          directory,
          configuration,
          model,
          tokenizer,
          data: undefined,
        }),
      }),
    });
    return { path, kind, flags };
  } finally {
    optimizer.dispose();
    optimizer.buffers.dispose();
  }
}

async function kindOf(directory: string): Promise<ModelKind> {
  const type = await huggingFaceModelType(directory);
  const kind = kinds[type];
  if (kind !== undefined) return kind;
  throw new CheckpointError('MTL_HUGGING_FACE_CONFIG', `${directory} holds a model of type ${type}`, {
    expected: `model_type ${Object.keys(kinds).join(' or ')} in config.json`,
    exitCode: 2,
  });
}

/**
 * The flags of a training of this model: its sizes, and what a training would not choose by itself;
 * everything else is left to the default preset.
 */
function flagsOf(options: {
  readonly kind: ModelKind;
  readonly model: TransformerConfiguration;
  readonly modelOf: (flags: readonly string[]) => TransformerConfiguration;
}): readonly string[] {
  const { kind, model, modelOf } = options;
  const { layerNormPlacement, sentenceOrderHead } = model as BertModelConfiguration;
  const own =
    kind === 'bert'
      ? [
          ...['--layer-norm-placement', layerNormPlacement],
          ...(sentenceOrderHead ? [] : ['--bert-no-binary-head']),
        ]
      : (model as GptModelConfiguration).tieEmbeddings
        ? []
        : ['--untie-embeddings-and-output-weights'];
  const sizes = [
    ...['--num-layers', `${model.numLayers}`],
    ...['--hidden-size', `${model.hiddenSize}`],
    ...['--num-attention-heads', `${model.numAttentionHeads}`],
    ...['--seq-length', `${model.maxPositionEmbeddings}`],
    ...own,
  ];
  const without = new Map(Object.entries(modelOf(sizes)));
  const others: ReadonlyArray<readonly [flag: string, key: keyof TransformerConfiguration]> = [
    ['--ffn-hidden-size', 'ffnHiddenSize'],
    ['--make-vocab-size-divisible-by', 'makeVocabularySizeDivisibleBy'],
    ['--norm-epsilon', 'layerNormEpsilon'],
    ['--gelu', 'geluKind'],
  ];
  const needed = others.filter(([, key]) => without.get(key) !== model[key]);
  return [...sizes, ...needed.flatMap(([flag, key]) => [flag, `${model[key]}`])];
}

/** What the flags of a training have no words for, such as three kinds of tokens. */
function refuseOtherModel(
  trained: TransformerConfiguration,
  options: { readonly model: TransformerConfiguration; readonly loadHuggingFace: string },
): void {
  const { model, loadHuggingFace } = options;
  // how it was trained, not what it is
  const { hiddenDropout, attentionDropout, initMethodStd } = trained;
  const wanted = Object.entries({ ...model, hiddenDropout, attentionDropout, initMethodStd });
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
