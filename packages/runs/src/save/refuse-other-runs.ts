import { isSamePlace, refuseCheckpoints } from '@mtl/saved-models/internal';

/** Where a run saves, and what it continues. */
export interface RunPlaces {
  readonly save?: string | undefined;
  readonly load?: string | undefined;
  readonly finetune?: boolean | undefined;
}

/**
 * Refuses a --save that holds checkpoints of runs that this one does not continue.
 *
 * @throws CheckpointError MTL_CHECKPOINT_EXISTS, status 2
 */
export async function refuseOtherRuns(
  { save, load, finetune }: RunPlaces,
  job: { readonly id?: string | undefined; readonly restartCount: number },
): Promise<void> {
  if (save === undefined) return;
  const isLoaded = isSamePlace(load, save);
  if (isLoaded && finetune !== true) return;
  await refuseCheckpoints(save, {
    remedy: isLoaded
      ? `choose another directory with --save: --finetune starts at iteration 0, and ${save} would hold checkpoints of two runs`
      : `continue that training run with --load ${save}, or choose another directory`,
    // what an earlier attempt of this job saved
    exceptJob: job.restartCount > 0 ? job.id : undefined,
  });
}
