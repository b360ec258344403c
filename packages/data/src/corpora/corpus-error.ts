import { DataError } from '@mtl/errors';

/** Receives the error about a line or row that cannot be used and is therefore skipped. */
export type OnBadLine = (error: DataError) => void;

/**
 * Passes the error about an unusable line or row to `onBadLine`. If this function is not given, throws the
 * error.
 */
export function reportBadLine(error: DataError, onBadLine: OnBadLine | undefined): void {
  if (onBadLine === undefined) throw error;
  onBadLine(error);
}

/**
 * Describes the position of a record for messages: the line, and the index of an array element, both counted
 * from 1.
 */
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

/** Returns an error about a corpus file. Its message names the line (counted from 1) that caused it. */
export function corpusError(options: {
  readonly path: string;
  readonly line?: number | undefined;
  readonly element?: number | undefined;
  readonly what: string;
  readonly expected?: string;
  readonly remedy?: string;
  readonly cause?: unknown;
  /** True for an error about a line or row that can be skipped. */
  readonly isBadLine?: boolean;
  /** The keys or columns that contain texts, if the requested key does not contain a text. */
  readonly keys?: readonly string[];
  /** The existing key that the user probably meant. */
  readonly nearestKey?: string | undefined;
}): DataError {
  const { path, line, element, what, expected, remedy, cause, isBadLine, keys, nearestKey } = options;
  return new DataError('MTL_DATA_CORPUS', `${placeInCorpus(options)}: ${what}`, {
    ...(expected === undefined ? {} : { expected }),
    ...(remedy === undefined ? {} : { remedy }),
    ...(cause === undefined ? {} : { cause }),
    details: {
      path,
      ...(line === undefined ? {} : { line }),
      ...(element === undefined ? {} : { element }),
      ...(isBadLine === true ? { isBadLine } : {}),
      ...(keys === undefined ? {} : { keys, nearestKey }),
    },
  });
}

/** Counts the lines and rows of a corpus that are skipped because they have no usable text. */
export class BadLines {
  /** The callback for `readDocuments`; undefined if bad lines are errors and are not skipped. */
  readonly onBadLine: OnBadLine | undefined;
  #count = 0;
  #first: DataError | undefined;

  constructor({ skip }: { readonly skip: boolean }) {
    if (!skip) return;
    this.onBadLine = (error) => {
      this.#count++;
      this.#first ??= error;
    };
  }

  get count(): number {
    return this.#count;
  }

  /** The error of the first bad line. */
  get first(): DataError | undefined {
    return this.#first;
  }

  /**
   * Throws if no document of a corpus was usable, because the key is then probably wrong.
   *
   * @throws DataError the error about the first bad line
   */
  checkSomeUsable(numDocuments: number): void {
    if (numDocuments === 0 && this.#first !== undefined) throw this.#first;
  }
}
