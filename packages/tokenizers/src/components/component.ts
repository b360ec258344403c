import { DataError } from '@mtl/errors';
import { isJsonObject } from '@mtl/errors/files';
import { tokenizerError } from '../tokenizer-files.js';
import { SlowPatternError } from './bounded-matching.js';
import type { PatternSettings } from './text-pattern.js';

/**
 * A component of a tokenizer.json, such as its normalizer. A field's type is checked when the field is read.
 * Errors have the code `MTL_DATA_TOKENIZER`, and name the file and the field.
 */
export class Component {
  readonly #file: string;
  readonly #where: string;
  readonly #fields: Readonly<Record<string, unknown>>;
  /** The type of the component, such as `NFC`. */
  readonly type: string;

  /**
   * @param place the file, and the path of the component in the file, such as `normalizer.normalizers[1]`
   * @throws DataError MTL_DATA_TOKENIZER if the value is not an object with a type
   */
  constructor(value: unknown, place: { readonly file: string; readonly where: string }) {
    this.#file = place.file;
    this.#where = place.where;
    if (!isJsonObject(value)) {
      throw tokenizerError(this.#file, `${this.#where} is ${shown(value)}`, {
        expected: 'an object with a type',
      });
    }
    this.#fields = value;
    this.type = this.text('type');
  }

  /** Throws an error about a field. */
  refuse(field: string, expected: string, options: { remedy?: string; cause?: unknown } = {}): never {
    const value = this.#fields[field];
    const what = value === undefined ? 'is missing' : `is ${shown(value)}`;
    const of = field === 'type' ? '' : ` (a ${this.type})`;
    throw tokenizerError(this.#file, `${this.#where}.${field} ${what}${of}`, {
      expected,
      ...options,
    });
  }

  has(field: string): boolean {
    return this.#fields[field] !== undefined;
  }

  value(field: string): unknown {
    return this.#fields[field];
  }

  text(field: string, fallback?: string): string {
    const value = this.#fields[field];
    if (value === undefined && fallback !== undefined) return fallback;
    return typeof value === 'string' ? value : this.refuse(field, 'a text');
  }

  /** Returns a string field that must consist of one code point. */
  character(field: string, fallback?: string): string {
    const value = this.text(field, fallback);
    return Array.from(value).length === 1 ? value : this.refuse(field, 'one character');
  }

  boolean(field: string, fallback?: boolean): boolean {
    const value = this.#fields[field];
    if (value === undefined && fallback !== undefined) return fallback;
    return typeof value === 'boolean' ? value : this.refuse(field, 'true or false');
  }

  /** Returns a boolean field; undefined if it is null or missing. */
  optionalBoolean(field: string): boolean | undefined {
    const value = this.#fields[field] ?? undefined;
    if (value === undefined || typeof value === 'boolean') return value;
    return this.refuse(field, 'true, false or null');
  }

  /** Returns an integer field from `minimum` to 2^32 - 1. */
  count(field: string, { minimum, fallback }: { minimum: number; fallback?: number }): number {
    const value = this.#fields[field];
    if (value === undefined && fallback !== undefined) return fallback;
    if (Number.isInteger(value) && (value as number) >= minimum && (value as number) < 2 ** 32)
      return value as number;
    return this.refuse(field, `a whole number of ${minimum} or more`);
  }

  choice<T extends string>(field: string, choices: readonly T[], fallback?: T): T {
    const value = this.#fields[field];
    if (value === undefined && fallback !== undefined) return fallback;
    const found = choices.find((choice) => choice === value);
    return found ?? this.refuse(field, choices.join(', '));
  }

  list(field: string): readonly unknown[] {
    const value = this.#fields[field];
    return Array.isArray(value) ? value : this.refuse(field, 'a list');
  }

  /** Returns the components in a field that contains a list of components. */
  parts(field: string): Component[] {
    return this.list(field).map(
      (value, i) => new Component(value, { file: this.#file, where: `${this.#where}.${field}[${i}]` }),
    );
  }

  /** Returns the pattern in a field: a literal string, or a regular expression in Oniguruma's syntax. */
  pattern(field: string): PatternSettings {
    const value = this.#fields[field];
    if (isJsonObject(value) && Object.keys(value).length === 1) {
      const { String: text, Regex: expression } = value;
      if (typeof text === 'string') return { String: text };
      if (typeof expression === 'string') return { Regex: expression };
    }
    return this.refuse(field, '{"String": "..."} or {"Regex": "..."}');
  }

  /** Calls `run`, which depends on the value of `field`. Errors of `run` then name the field. */
  read<T>(field: string, run: () => T): T {
    try {
      return run();
    } catch (cause) {
      if (cause instanceof DataError) throw cause;
      const why = cause instanceof Error ? cause.message : String(cause);
      throw tokenizerError(this.#file, `${this.#where}.${field} cannot be used (a ${this.type}): ${why}`, {
        cause,
        ...(cause instanceof SlowPatternError
          ? { remedy: 'rewrite the pattern without loops inside each other, or shorten the text' }
          : {}),
      });
    }
  }
}

/** Returns the component in a field of a tokenizer.json; undefined if the field is null or missing. */
export function readComponent(
  json: Readonly<Record<string, unknown>>,
  field: string,
  file: string,
): Component | undefined {
  const value = json[field] ?? undefined;
  return value === undefined ? undefined : new Component(value, { file, where: field });
}

const longestShown = 80;

/** Returns `value` as JSON, truncated if it is long. */
export function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > longestShown ? `${text.slice(0, longestShown)}...` : text;
}
