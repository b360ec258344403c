import { DataError } from '@mtl/errors';

/** Where in a task's file something is wrong. */
export interface TaskErrorOptions {
  /** `FILE`: not the format; `LABEL`: outside the set; `ANSWER`: not at the position in the file. */
  readonly kind: 'FILE' | 'LABEL' | 'ANSWER';
  readonly path: string;
  /** The place in the file: "line 3", "question 2 (of 4)", `data[0].paragraphs[1]`. */
  readonly place?: string | undefined;
  readonly what: string;
  readonly expected?: string;
  readonly remedy?: string;
  readonly cause?: unknown;
}

/** The error of a file of a fine-tuning task: `MTL_DATA_TASK_FILE`, `..._LABEL` or `..._ANSWER`. */
export function taskError(options: TaskErrorOptions): DataError {
  const { kind, path, place, what, expected, remedy, cause } = options;
  const where = place === undefined ? path : `${path}, ${place}`;
  return new DataError(`MTL_DATA_TASK_${kind}`, `${where}: ${what}`, {
    ...(expected === undefined ? {} : { expected }),
    ...(remedy === undefined ? {} : { remedy }),
    ...(cause === undefined ? {} : { cause }),
    details: { path, ...(place === undefined ? {} : { place }) },
  });
}
