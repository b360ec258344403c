import { FileTooLargeError, fileProblem, readRegularFile } from '../files/regular-files.js';
import { tokenizerError } from './tokenizer-error.js';

// The largest published tokenizer.json files have some tens of MB.
const maximumBytes = 512 * 1024 * 1024;

/** Reads and parses a JSON file of a tokenizer; throws `MTL_DATA_TOKENIZER` when it cannot. */
export function readJsonFile(path: string): unknown {
  const text = readTextFile(path);
  try {
    return JSON.parse(text);
  } catch (cause) {
    // A SyntaxError, or a RangeError when it is nested too deep.
    throw tokenizerError(path, `is not JSON: ${(cause as Error).message}`, { cause });
  }
}

/** Reads a text file of a tokenizer; throws `MTL_DATA_TOKENIZER` when it cannot. */
export function readTextFile(path: string): string {
  try {
    return readRegularFile(path, maximumBytes).toString('utf8');
  } catch (cause) {
    if (cause instanceof FileTooLargeError)
      throw tokenizerError(path, cause.message, { expected: `at most ${maximumBytes}` });
    throw tokenizerError(path, fileProblem(cause), { cause, remedy: 'check the path and its permissions' });
  }
}
