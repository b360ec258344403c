import { prepareSaveDirectory } from '@mtl/checkpoint';
import { CheckpointError, MtlError } from '@mtl/errors';
import { isSamePlace } from './is-same-place.js';
import { refuseCheckpoints } from './refuse-checkpoints.js';
import type { TrainingProcesses } from './training-processes.js';

export interface PrepareSaveOptions {
  /** The directory of --save, of --load. */
  readonly save: string | undefined;
  readonly load: string | undefined;
  /** Whether a launcher has started this again, so that what is there may be its own. */
  readonly isRestart: boolean;
  /** Of one checkpoint. */
  readonly numBytes: number;
  readonly processes: TrainingProcesses;
}

/**
 * Makes sure, before the first step, that a training can save, and that it saves over no other one. All
 * processes call it; rank 0 looks.
 *
 * @throws CheckpointError MTL_CHECKPOINT_EXISTS when --save holds checkpoints that --load does not name;
 *   MTL_CHECKPOINT_DENIED, _IO or _DISK_FULL when nothing can be saved there
 */
export async function prepareSave(options: PrepareSaveOptions): Promise<void> {
  const { save, load, isRestart, numBytes, processes } = options;
  if (save === undefined) return;
  const goesOn = isRestart || isSamePlace(load, save);
  await processes.together(async () => {
    if (!processes.isFirst) return;
    await prepareSaveDirectory({ directory: save, numBytes }).catch(nameFlag);
    if (goesOn) return;
    const remedy = `go on with that training by --load ${save}, or choose another directory`;
    await refuseCheckpoints(save, { remedy });
  });
}

/** Who passed no --save learns that there is one. */
function nameFlag(error: unknown): never {
  if (!MtlError.isInstance(error)) throw error;
  const { code, message, remedy, details, exitCode } = error;
  throw new CheckpointError(code, message, {
    remedy: `${remedy === undefined ? '' : `${remedy}; or `}name another place with --save`,
    ...{ details, exitCode, cause: error },
  });
}
