import { listCheckpoints, saveCheckpoint } from '@mtl/checkpoint';
import { createTokenizer } from '@mtl/data';
import { CheckpointError } from '@mtl/errors';
import { GptStage } from '@mtl/models';
import { AdamwOptimizer, LossScaler, ParameterBuffers } from '@mtl/optimizer';
import {
  type GptWeights,
  openGptWeights,
  parseFlags,
  saveConfiguration,
  validateConfiguration,
} from '@mtl/recipes';
import { optimizerTensors, trainingState, weightTensors } from '@mtl/trainer';

/**
 * Begins a directory of checkpoints with the weights of a Hugging Face directory: iteration 0, a fresh
 * optimizer.
 */
export async function convertToCheckpoint(options: {
  readonly loadHuggingFace: string;
  readonly directory: string;
  readonly onNotice: (notice: string) => void;
}): Promise<void> {
  const { loadHuggingFace, directory, onNotice } = options;
  await checkTarget(directory);
  const weights = await openGptWeights({ loadHuggingFace, onNotice });
  const configuration = validateConfiguration(parseFlags(modelFlags(weights)));
  const tokenizer = weights.tokenizer === undefined ? undefined : await createTokenizer(weights.tokenizer);
  const stage = new GptStage({ model: weights.model, device: 'cpu', dtype: 'float32', seed: 0 });
  const buffers = new ParameterBuffers(stage.parameters, { device: 'cpu', dtype: 'float32' });
  const optimizer = new AdamwOptimizer(buffers, {
    beta1: configuration.optimizer.adamBeta1,
    beta2: configuration.optimizer.adamBeta2,
    epsilon: configuration.optimizer.adamEpsilon,
    weightDecay: configuration.optimizer.weightDecay,
    clipGradient: configuration.optimizer.clipGrad,
  });
  try {
    await weights.load(weightTensors(optimizer));
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
          model: weights.model,
          tokenizer,
          data: undefined,
        }),
      }),
    });
    process.stdout.write(
      `${loadHuggingFace} -> ${path}\ntrain it with --load ${directory} ${shownFlags(weights)}\n`,
    );
  } finally {
    optimizer.dispose();
    buffers.dispose();
  }
}

/** Refuses a directory that has checkpoints: a training resumes from the newest, which would be this one. */
async function checkTarget(directory: string): Promise<void> {
  const listing = await listCheckpoints(directory);
  const present = [...(listing?.checkpoints ?? []), ...(listing?.skipped ?? [])];
  if (present.length === 0) return;
  throw new CheckpointError(
    'MTL_CHECKPOINT_EXISTS',
    `--save ${directory} holds ${present[0]!.path} already`,
    {
      expected: 'a directory without checkpoints',
      remedy: 'choose another name',
      exitCode: 2,
    },
  );
}

/** The flags of a training of this model; everything else is left to the default preset. */
function modelFlags({ model }: GptWeights): string[] {
  return [
    ...['--num-layers', `${model.numLayers}`],
    ...['--hidden-size', `${model.hiddenSize}`],
    ...['--ffn-hidden-size', `${model.ffnHiddenSize}`],
    ...['--num-attention-heads', `${model.numAttentionHeads}`],
    ...['--seq-length', `${model.maxPositionEmbeddings}`],
    ...['--max-position-embeddings', `${model.maxPositionEmbeddings}`],
    ...['--make-vocab-size-divisible-by', `${model.makeVocabularySizeDivisibleBy}`],
    ...(model.tieEmbeddings ? [] : ['--untie-embeddings-and-output-weights']),
  ];
}

const shownFlags = (weights: GptWeights): string => modelFlags(weights).join(' ');
