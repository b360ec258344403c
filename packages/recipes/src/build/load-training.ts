import { findCheckpoint, loadCheckpoint } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { HuggingFaceGpt2 } from '@mtl/models';
import type { AdamwOptimizer, LossScaler } from '@mtl/optimizer';
import {
  isOptimizerTensor,
  optimizerTensors,
  readTrainingState,
  type TrainingProgress,
  weightTensors,
} from '@mtl/trainer';
import type { CheckpointConfiguration } from '../gpt-configuration.js';

export interface LoadTrainingOptions {
  readonly checkpoint: CheckpointConfiguration;
  /** What --load-hf names, opened. */
  readonly huggingFace: HuggingFaceGpt2 | undefined;
  readonly optimizer: AdamwOptimizer;
  readonly lossScaler: LossScaler;
  readonly onMessage: (text: string) => void;
}

/**
 * Brings back what --load or --load-hf names into an optimizer with initial weights. Undefined when training starts at
 * iteration 0: from nothing, or from weights alone.
 */
export async function loadTraining(options: LoadTrainingOptions): Promise<TrainingProgress | undefined> {
  const { checkpoint: configuration, huggingFace, optimizer, onMessage } = options;
  if (huggingFace !== undefined) {
    await huggingFace.load(weightTensors(optimizer));
    optimizer.refreshModel();
    onMessage(`loaded the weights of ${huggingFace.directory}; training starts at iteration 0`);
    return undefined;
  }
  return configuration.load === undefined ? undefined : await resume(options, configuration.load);
}

async function resume(
  { checkpoint: configuration, optimizer, lossScaler, onMessage }: LoadTrainingOptions,
  directory: string,
): Promise<TrainingProgress | undefined> {
  const { checkpointStep, finetune, loadOptimizer } = configuration;
  const found = await findCheckpoint({
    directory,
    ...(checkpointStep === undefined ? {} : { step: checkpointStep }),
    onNotice: onMessage,
  });
  if (found.kind === 'none') {
    throw new CheckpointError('MTL_CHECKPOINT_NONE', `--load ${directory}: there is no checkpoint`, {
      expected: 'a directory that --save wrote',
      exitCode: 2,
    });
  }
  const { checkpoint } = found;
  const withOptimizer = loadOptimizer && !finetune;
  await loadCheckpoint({
    checkpoint,
    tensors: [...weightTensors(optimizer), ...(withOptimizer ? optimizerTensors(optimizer) : [])],
    ...(withOptimizer ? {} : { ignore: isOptimizerTensor }),
  });
  optimizer.refreshModel();
  if (finetune) {
    onMessage(`loaded the weights of ${checkpoint.path}; training starts at iteration 0`);
    return undefined;
  }
  const state = readTrainingState(checkpoint.state, checkpoint.path);
  if (withOptimizer) {
    optimizer.numSteps = state.optimizerSteps;
    lossScaler.loadState(state.lossScaler);
  }
  onMessage(`resuming from ${checkpoint.path}, iteration ${state.progress.iteration}`);
  return state.progress;
}
