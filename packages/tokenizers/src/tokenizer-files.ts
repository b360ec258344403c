import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DataError } from '@mtl/errors';
import { FileTooLargeError, fileProblem, isJsonObject, readRegularFile } from '@mtl/errors/files';

// a limit that is far above the largest published tokenizer.json files, which have tens of MB
const maximumBytes = 512 * 1024 * 1024;

/** Reads and parses a tokenizer's JSON file. Throws `MTL_DATA_TOKENIZER` if the file cannot be read. */
export function readJsonFile(path: string): unknown {
  const text = readTextFile(path);
  try {
    return JSON.parse(text);
  } catch (cause) {
    // the cause is a SyntaxError, or a RangeError if the JSON is nested too deeply
    throw tokenizerError(path, `is not JSON: ${(cause as Error).message}`, { cause });
  }
}

/** Reads a JSON object from a tokenizer's file. Throws `MTL_DATA_TOKENIZER` if the file cannot be read. */
export function readJsonObject(path: string): Readonly<Record<string, unknown>> {
  const settings = readJsonFile(path);
  if (isJsonObject(settings)) return settings;
  throw tokenizerError(path, 'is not a JSON object');
}

/** Returns the settings in the JSON file `name`, or an empty object if the file does not exist. */
export function settingsIn(directory: string, name: string): Readonly<Record<string, unknown>> {
  const path = join(directory, name);
  return existsSync(path) ? readJsonObject(path) : {};
}

/** Reads a tokenizer's text file. Throws `MTL_DATA_TOKENIZER` if the file cannot be read. */
export function readTextFile(path: string): string {
  try {
    return readRegularFile(path, maximumBytes).toString('utf8');
  } catch (cause) {
    if (cause instanceof FileTooLargeError)
      throw tokenizerError(path, cause.message, { expected: `at most ${maximumBytes}` });
    throw tokenizerError(path, fileProblem(cause), { cause, remedy: 'check the path and its permissions' });
  }
}

/** Returns the error for a tokenizer file that is missing, malformed or inconsistent. */
export function tokenizerError(
  path: string,
  what: string,
  options: { expected?: string; remedy?: string; cause?: unknown } = {},
): DataError {
  return new DataError('MTL_DATA_TOKENIZER', `${path}: ${what}`, {
    remedy: 'save the tokenizer again with the Hugging Face libraries, or train one with trainByteLevelBpe',
    details: { path },
    ...options,
  });
}

/** Throws the error about a tokenizer file. */
export type Fail = (what: string, expected?: string) => never;

/** Returns a function that throws `MTL_DATA_TOKENIZER`, with the problem of the file at `path`. */
export const makeFail =
  (path: string): Fail =>
  (what, expected) => {
    throw tokenizerError(path, what, expected === undefined ? {} : { expected });
  };
