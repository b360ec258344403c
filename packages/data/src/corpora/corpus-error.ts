import { DataError } from '@mtl/errors';

/** Hears of a line or row that cannot be used, and is left out. */
export type OnBadLine = (error: DataError) => void;

/** Reports a line or row that cannot be used to the caller that leaves those out; throws where none does. */
export function reportBadLine(error: DataError, onBadLine: OnBadLine | undefined): void {
  if (onBadLine === undefined) throw error;
  onBadLine(error);
}

/** Where a record is, for messages: the line, and the element of an array, both counted from 1. */
export function placeInCorpus(at: {
  readonly path: string;
  readonly line?: number | undefined;
  readonly element?: number | undefined;
}): string {
  const { path, line, element } = at;
  return (
    path +
    (line === undefined ? '' : `, line ${line}`) +
    (element === undefined ? '' : `, element ${element}`)
  );
}

/** The error of a corpus file, with the line (counted from 1) where it is. */
export function corpusError(options: {
  readonly path: string;
  readonly line?: number | undefined;
  readonly element?: number | undefined;
  readonly what: string;
  readonly expected?: string;
  readonly remedy?: string;
  readonly cause?: unknown;
}): DataError {
  const { path, line, element, what, expected, remedy, cause } = options;
  return new DataError('MTL_DATA_CORPUS', `${placeInCorpus(options)}: ${what}`, {
    ...(expected === undefined ? {} : { expected }),
    ...(remedy === undefined ? {} : { remedy }),
    ...(cause === undefined ? {} : { cause }),
    details: {
      path,
      ...(line === undefined ? {} : { line }),
      ...(element === undefined ? {} : { element }),
    },
  });
}
