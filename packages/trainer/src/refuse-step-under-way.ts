import { UsageError } from '@mtl/errors';
import type { TrainingProgress } from './training-progress.js';

/**
 * Refuses what must not happen while a step is under way: weights and optimizer are ahead of the progress
 * that is known.
 *
 * @param what the subject of the error's sentence: `an evaluation`
 * @throws UsageError `MTL_STEP_UNDER_WAY`
 */
export function refuseStepUnderWay(
  what: string,
  { progress, isStepUnderWay }: { readonly progress: TrainingProgress; readonly isStepUnderWay: boolean },
): void {
  if (!isStepUnderWay) return;
  throw new UsageError(
    'MTL_STEP_UNDER_WAY',
    `${what} after iteration ${progress.iteration}, while the next step is under way`,
    {
      expected: 'a step that is over, with nothing under way',
      remedy: 'let `waitsAfter` of `steps` name the iteration, and end the loop by `isOver`',
    },
  );
}
