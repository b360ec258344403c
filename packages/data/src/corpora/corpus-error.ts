import { DataError } from '@mtl/errors';

/** The error of a corpus file, with the line (counted from 1) where it is. */
export function corpusError(options: {
  readonly path: string;
  readonly line?: number | undefined;
  readonly what: string;
  readonly expected?: string;
  readonly remedy?: string;
  readonly cause?: unknown;
}): DataError {
  const { path, line, what, expected, remedy, cause } = options;
  return new DataError('MTL_DATA_CORPUS', `${path}${line === undefined ? '' : `, line ${line}`}: ${what}`, {
    ...(expected === undefined ? {} : { expected }),
    ...(remedy === undefined ? {} : { remedy }),
    ...(cause === undefined ? {} : { cause }),
    details: { path, ...(line === undefined ? {} : { line }) },
  });
}
