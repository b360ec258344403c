import type { Checkpoint } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { ModelOptimizer } from '@mtl/optimizer';
import { optimizerTensors } from '@mtl/trainer';
import { isOptimizerTensor } from '@mtl/trainer/internal';

/**
 * Refuses the optimizer state of another optimizer before anything is read: a checkpoint with states, but
 * without those of this run.
 *
 * @throws CheckpointError MTL_CHECKPOINT_OPTIMIZER, status 2
 */
export function checkSavedOptimizer(
  checkpoint: Pick<Checkpoint, 'path' | 'tensors'>,
  optimizer: ModelOptimizer,
): void {
  const missing = optimizerTensors(optimizer).find(({ name }) => !checkpoint.tensors.has(name));
  const saved = [...checkpoint.tensors.keys()].filter(isOptimizerTensor);
  const isMuon = saved.some((name) => name.startsWith('optimizer.momentum_buffer.'));
  const isMuonHere = optimizer.state.some(({ name }) => name === 'momentum_buffer');
  // what is missing although the optimizer is the same, reading names
  if (missing === undefined || saved.length === 0 || isMuon === isMuonHere) return;
  throw new CheckpointError(
    'MTL_CHECKPOINT_OPTIMIZER',
    `${checkpoint.path} has the optimizer state of ${isMuon ? 'Muon' : 'AdamW'}, without ${missing.name}`,
    {
      expected: 'the optimizer that the checkpoint was trained with',
      remedy: `use --optimizer ${isMuon ? 'muon' : 'adam'}, or continue without its state: --no-load-optim`,
      exitCode: 2,
    },
  );
}
