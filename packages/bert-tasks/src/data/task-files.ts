import { isUtf8 } from 'node:buffer';
import { DataError } from '@mtl/errors';
import { fileProblem, readRegularFile } from '@mtl/errors/files';

/** Returns the text of a task's file without its byte-order mark. Throws `MTL_DATA_TASK_FILE`. */
export function readTaskText(path: string): string {
  let bytes: Buffer;
  try {
    bytes = readRegularFile(path);
  } catch (cause) {
    throw taskError({ code: 'MTL_DATA_TASK_FILE', path, what: fileProblem(cause), cause });
  }
  if (!isUtf8(bytes)) {
    const remedy = 'get the file again, or convert it with iconv -t UTF-8';
    throw taskError({ code: 'MTL_DATA_TASK_FILE', path, what: 'is not UTF-8', remedy });
  }
  const text = bytes.toString('utf8');
  return text.startsWith('\ufeff') ? text.slice(1) : text;
}

/** A value in a JSON file together with its path in the file, so that every error can name the path. */
export class TaskJson {
  readonly path: string;
  /** The path of the value in the file, for example `data[0].paragraphs[2]`; empty for the whole file. */
  readonly place: string;
  readonly value: unknown;

  constructor(options: { readonly path: string; readonly place: string; readonly value: unknown }) {
    this.path = options.path;
    this.place = options.place;
    this.value = options.value;
  }

  /** Parses a file; throws `MTL_DATA_TASK_FILE` if it is not JSON. */
  static read(path: string): TaskJson {
    const text = readTaskText(path);
    try {
      return new TaskJson({ path, place: '', value: JSON.parse(text) });
    } catch (cause) {
      const what = `is not JSON (${(cause as Error).message})`;
      throw taskError({ code: 'MTL_DATA_TASK_FILE', path, what, expected: 'one JSON object', cause });
    }
  }

  /** Returns true if an object has the key. */
  has(key: string): boolean {
    return this.#isObject() && Object.hasOwn(this.value as object, key);
  }

  /** Returns the value of a required key. */
  get(key: string): TaskJson {
    if (!this.#isObject()) this.fail(`is ${describeKind(this.value)}`, `an object with "${key}"`);
    if (!this.has(key)) {
      const keys = Object.keys(this.value as object);
      this.fail(`has no "${key}"`, `this key; found ${keys.length === 0 ? 'none' : keys.join(', ')}`);
    }
    const place = this.place === '' ? key : `${this.place}.${key}`;
    return new TaskJson({ path: this.path, place, value: (this.value as Record<string, unknown>)[key] });
  }

  /** Returns the elements of the value, which must be a list. */
  list(): TaskJson[] {
    if (!Array.isArray(this.value)) this.fail(`is ${describeKind(this.value)}`, 'a list');
    const values = this.value as unknown[];
    return values.map((value, i) => new TaskJson({ path: this.path, place: `${this.place}[${i}]`, value }));
  }

  text(): string {
    if (typeof this.value !== 'string') this.fail(`is ${describeKind(this.value)}`, 'a text');
    return this.value as string;
  }

  flag(): boolean {
    if (typeof this.value !== 'boolean') this.fail(`is ${describeKind(this.value)}`, 'true or false');
    return this.value as boolean;
  }

  /** Returns the value, which must be a non-negative integer. */
  count(): number {
    if (!Number.isSafeInteger(this.value) || (this.value as number) < 0) {
      this.fail(`is ${describeKind(this.value)}`, 'a non-negative integer');
    }
    return this.value as number;
  }

  /** Throws an error about the value; `code` is `MTL_DATA_TASK_FILE` by default. */
  fail(what: string, expected: string, code: TaskCode = 'MTL_DATA_TASK_FILE'): never {
    const place = this.place === '' ? undefined : this.place;
    throw taskError({ code, path: this.path, place, what, expected });
  }

  #isObject(): boolean {
    return typeof this.value === 'object' && this.value !== null && !Array.isArray(this.value);
  }
}

function describeKind(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return value === null ? 'null' : 'an object';
  const text = JSON.stringify(value);
  return text.length > 40 ? `${text.slice(0, 40)}...` : text;
}

/**
 * The codes of errors about a task's file: wrong format; an unknown label; an answer that is not at its
 * stated position.
 */
type TaskCode = 'MTL_DATA_TASK_FILE' | 'MTL_DATA_TASK_LABEL' | 'MTL_DATA_TASK_ANSWER';

/** A problem in a task's file, and the position of the problem. */
interface TaskErrorOptions {
  readonly code: TaskCode;
  readonly path: string;
  /** The position in the file: "line 3", "question 2 (of 4)", `data[0].paragraphs[1]`. */
  readonly place?: string | undefined;
  readonly what: string;
  readonly expected?: string;
  readonly remedy?: string;
  readonly cause?: unknown;
}

/** Returns the error about a file of a fine-tuning task. */
export function taskError(options: TaskErrorOptions): DataError {
  const { code, path, place, what, expected, remedy, cause } = options;
  const where = place === undefined ? path : `${path}, ${place}`;
  return new DataError(code, `${where}: ${what}`, {
    ...(expected === undefined ? {} : { expected }),
    ...(remedy === undefined ? {} : { remedy }),
    ...(cause === undefined ? {} : { cause }),
    details: { path, ...(place === undefined ? {} : { place }) },
  });
}
