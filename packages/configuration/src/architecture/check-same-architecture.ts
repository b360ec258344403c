import { CheckpointError } from '@mtl/errors';
import type { TransformerConfiguration } from '@mtl/models';
import type { ModelKind } from '../model-kind.js';
import { differingFlags } from './architecture-flags.js';

export interface CheckSameArchitectureOptions {
  readonly kind: ModelKind;
  /** The model of the checkpoint. */
  readonly saved: TransformerConfiguration;
  /** The model to be trained. */
  readonly built: TransformerConfiguration;
  /** Of the checkpoint. */
  readonly path: string;
}

/**
 * Refuses a checkpoint of another model than the one to be trained, in the words of its flags.
 *
 * @throws CheckpointError MTL_CHECKPOINT_MODEL
 */
export function checkSameArchitecture({ kind, saved, built, path }: CheckSameArchitectureOptions): void {
  const differing = differingFlags(kind, { one: saved, other: built });
  if (differing === undefined) return;
  const { one: there, other: here, toGetOne } = differing;
  throw new CheckpointError(
    'MTL_CHECKPOINT_MODEL',
    `${path} holds a model of ${there}, and this one has ${here}`,
    {
      expected: 'the model that was saved',
      remedy: `${toGetOne}, or leave those flags out: --load has them; the other model is trained without --load`,
      exitCode: 2,
    },
  );
}
