import { KernelError, MtlError, type MtlErrorOptions, TrainingError, UsageError } from '@mtl/errors';
import type { TrainingProgress } from '../metrics/training-reports.js';

/**
 * Returns true if the error is about a token id, label or position that a kernel rejected as out of range.
 */
function isWrongIndex(error: unknown): error is MtlError {
  return MtlError.isInstance(error) && error.code === 'MTL_INDEX';
}

function makeOptions(cause: MtlError, details: MtlErrorOptions['details'] = {}): MtlErrorOptions {
  const { remedy } = cause;
  return { ...(remedy === undefined ? {} : { remedy }), details, cause };
}

/**
 * Runs `body`. If a kernel rejects an index as out of range, adds `where` to the error, which says where the
 * index was read.
 */
export function namingWrongIndices<T>(where: string, body: () => T): T {
  try {
    return body();
  } catch (error) {
    if (!isWrongIndex(error)) throw error;
    throw new KernelError(error.code, `${where}: ${error.message}`, makeOptions(error));
  }
}

/**
 * Runs `body` and returns its value. If `body` throws an error about an index out of range, returns the
 * error, so that it can be sent to all ranks. Any other error is thrown.
 */
export function findingWrongIndices<T>(body: () => T): { readonly value: T } | { readonly wrong: MtlError } {
  try {
    return { value: body() };
  } catch (error) {
    if (!isWrongIndex(error)) throw error;
    return { wrong: error };
  }
}

/**
 * Returns the error that all ranks throw if any rank has read an index out of range. `wrong` is the error on
 * this rank; undefined if a different rank has it.
 */
export function wrongIndexOfStep(iteration: number, wrong: MtlError | undefined): TrainingError {
  if (wrong === undefined) {
    return new TrainingError(
      'MTL_INDEX',
      `iteration ${iteration}: another rank has read an index out of range`,
      {
        remedy: 'the error of that rank names the index',
        details: { iteration },
      },
    );
  }
  const message = `iteration ${iteration}: ${wrong.message}`;
  return new TrainingError('MTL_INDEX', message, makeOptions(wrong, { iteration }));
}

/**
 * Throws if a step is running, because weights and optimizer then differ from the known progress.
 *
 * @param what the subject of the error's sentence, such as `an evaluation`
 * @throws UsageError `MTL_STEP_UNDER_WAY` if a step is running
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
