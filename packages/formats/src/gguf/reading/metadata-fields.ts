import { CheckpointError } from '@mtl/errors';
import { ggufInvalid } from './gguf-file.js';
import type { ReadValue } from './parse-header.js';

/**
 * A file's metadata, which are read value by value. If a value is missing or has the wrong type, a coded
 * error names the file.
 */
export class MetadataFields {
  readonly path: string;
  readonly #values: ReadonlyMap<string, ReadValue>;
  readonly #read = new Set<string>();

  constructor(path: string, values: ReadonlyMap<string, ReadValue>) {
    this.path = path;
    this.#values = values;
  }

  /** Returns a value without checking its type. */
  any(key: string): ReadValue | undefined {
    this.#read.add(key);
    return this.#values.get(key);
  }

  #optional<T extends ReadValue>(
    key: string,
    { expected, isValid }: { readonly expected: string; readonly isValid: (value: ReadValue) => value is T },
  ): T | undefined {
    const value = this.any(key);
    if (value === undefined) return undefined;
    if (isValid(value)) return value;
    const shown = Array.isArray(value) ? 'a list' : JSON.stringify(String(value));
    throw ggufInvalid(this.path, `${key} is ${shown}, and not ${expected}`);
  }

  count(key: string): number | undefined {
    const isValid = (value: ReadValue): value is number =>
      typeof value === 'number' && Number.isInteger(value) && value >= 0;
    return this.#optional(key, { expected: 'a whole number', isValid });
  }

  number(key: string): number | undefined {
    const isValid = (value: ReadValue): value is number =>
      typeof value === 'number' && Number.isFinite(value);
    return this.#optional(key, { expected: 'a number', isValid });
  }

  text(key: string): string | undefined {
    const isValid = (value: ReadValue): value is string => typeof value === 'string';
    return this.#optional(key, { expected: 'a text', isValid });
  }

  truth(key: string): boolean | undefined {
    const isValid = (value: ReadValue): value is boolean => typeof value === 'boolean';
    return this.#optional(key, { expected: 'true or false', isValid });
  }

  texts(key: string): readonly string[] | undefined {
    const isValid = (value: ReadValue): value is readonly string[] =>
      Array.isArray(value) && value.every((one) => typeof one === 'string');
    return this.#optional(key, { expected: 'a list of texts', isValid });
  }

  counts(key: string): readonly number[] | undefined {
    const isValid = (value: ReadValue): value is readonly number[] =>
      Array.isArray(value) && value.every((one) => Number.isInteger(one));
    return this.#optional(key, { expected: 'a list of whole numbers', isValid });
  }

  /** Returns a value that must be present. */
  required<T>(key: string, value: T | undefined): T {
    if (value !== undefined) return value;
    throw ggufInvalid(this.path, `it has no ${key}`);
  }

  /** Makes the error for a model that this project cannot compute. */
  unsupported(problem: string, expected: string): CheckpointError {
    return new CheckpointError('MTL_GGUF_ARCHITECTURE', `${this.path}: ${problem}`, {
      expected,
      remedy: 'choose another model: this one cannot be computed here',
      exitCode: 2,
    });
  }

  /** Returns the keys that begin with `prefix` and have not been read yet, in the order of the file. */
  unread(prefix: string): readonly string[] {
    return [...this.#values.keys()].filter((key) => key.startsWith(prefix) && !this.#read.has(key));
  }
}
