import { DataError } from '@mtl/errors';

/** Receives the error of a line or row that cannot be used, and is left out. */
export type OnBadLine = (error: DataError) => void;

/** Reports an unusable line or row to a caller that skips such lines; throws without such a caller. */
export function reportBadLine(error: DataError, onBadLine: OnBadLine | undefined): void {
  if (onBadLine === undefined) throw error;
  onBadLine(error);
}

/**
 * Describes the place of a record for messages: the line, and the element of an array, both counted from 1.
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

/** Returns the error of a corpus file, with the line (counted from 1) where it is. */
export function corpusError(options: {
  readonly path: string;
  readonly line?: number | undefined;
  readonly element?: number | undefined;
  readonly what: string;
  readonly expected?: string;
  readonly remedy?: string;
  readonly cause?: unknown;
  /** True for a line or row that can be left out. */
  readonly isBadLine?: boolean;
  /** The keys or columns that do hold texts, if the requested key does not. */
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

/** Counts the lines and rows that are left out of a corpus because they hold no usable text. */
export class BadLines {
  /** The callback for `readDocuments`; undefined if bad lines are errors and none is left out. */
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
   * Rejects a corpus without a usable document: then the key is wrong, not just a few lines.
   *
   * @throws DataError of the first bad line
   */
  checkSomeUsable(numDocuments: number): void {
    if (numDocuments === 0 && this.#first !== undefined) throw this.#first;
  }
}
