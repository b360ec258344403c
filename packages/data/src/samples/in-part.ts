import { DataError } from '@mtl/errors';
import type { SplitName } from './split.js';

/** Runs something for one part of a dataset and adds both names to errors about the data. */
export function inPart<T>(part: { readonly prefix: string; readonly split: SplitName }, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof DataError)) throw error;
    const { expected, remedy, details } = error;
    throw new DataError(error.code, `${part.prefix} (${part.split}): ${error.message}`, {
      ...(expected === undefined ? {} : { expected }),
      ...(remedy === undefined ? {} : { remedy }),
      details,
      cause: error,
    });
  }
}
