import { Checkpoint, loadCheckpoint } from '@mtl/checkpoint';
import type { LossScaler, ModelOptimizer } from '@mtl/optimizer';
import { optimizerTensors, readTrainingState, weightTensors } from '../training-checkpoint.js';
import type { TrainingProgress } from '../training-progress.js';

export interface RestoreCheckpointOptions {
  /** Of a checkpoint of this run, in any layout. */
  readonly path: string;
  readonly optimizer: ModelOptimizer;
  readonly lossScaler: LossScaler;
}

/**
 * Takes weights, optimizer and loss scale from a checkpoint, in the middle of a run. Every rank must call it.
 *
 * @returns the progress of the checkpoint
 * @throws CheckpointError `MTL_CHECKPOINT_...`
 */
export async function restoreCheckpoint(options: RestoreCheckpointOptions): Promise<TrainingProgress> {
  const { path, optimizer, lossScaler } = options;
  const checkpoint = await Checkpoint.open(path);
  const state = readTrainingState(checkpoint.state, path);
  const tensors = [...weightTensors(optimizer), ...optimizerTensors(optimizer)];
  const own = new Set(tensors.map(({ name }) => name));
  await loadCheckpoint({ checkpoint, tensors, ignore: (name) => !own.has(name) });
  optimizer.refreshModel();
  optimizer.numSteps = state.optimizerSteps;
  lossScaler.loadState(state.lossScaler);
  return state.progress;
}
