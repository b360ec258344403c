import type { Checkpoint } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import { isAdapter } from '@mtl/formats';
import { isOptimizerTensor } from '@mtl/trainer';

/**
 * Rejects a checkpoint whose low-rank adapters do not match the run, before tensors are read. This is the
 * case if the adapters belong to different layers, if only the checkpoint has adapters, or if a resumed run
 * has adapters but the checkpoint has none.
 *
 * @throws CheckpointError MTL_CHECKPOINT_LORA, status 2
 */
export function checkSavedAdapters(
  { path, tensors }: Pick<Checkpoint, 'path' | 'tensors'>,
  { parameterNames, finetune }: { readonly parameterNames: readonly string[]; readonly finetune: boolean },
): void {
  const saved = [...tensors.keys()].filter((name) => isAdapter(name) && !isOptimizerTensor(name));
  const wanted = new Set(parameterNames.filter(isAdapter));
  const refuse = (problem: string, expected: string, remedy: string): CheckpointError =>
    new CheckpointError('MTL_CHECKPOINT_LORA', `${path} ${problem}`, { expected, remedy, exitCode: 2 });
  if (wanted.size > 0 && saved.length === 0) {
    if (finetune) return;
    throw refuse(
      'has no adapters, and --lora-rank asks for some',
      'a checkpoint of a run with --lora-rank',
      'add --finetune to begin a new run that adapts its weights',
    );
  }
  if (wanted.size === 0 && saved.length > 0) {
    throw refuse(
      'has adapters, which this run would lose',
      '--lora-rank, or weights with merged adapters',
      'pass --lora-rank and the other flags of LoRA that it was trained with, or merge them first: mtl convert --load DIR --save-hf DIR',
    );
  }
  const other = saved.find((name) => !wanted.has(name));
  if (other === undefined && saved.length === wanted.size) return;
  const missing = [...wanted].find((name) => !tensors.has(name));
  throw refuse(
    `has adapters of other layers: ${other === undefined ? `not ${missing}` : other}`,
    'the --lora-targets that it was trained with',
    'leave --lora-targets out: a resumed run has the targets of its checkpoint',
  );
}
