import { readFileSync, statSync } from 'node:fs';
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
    const { size } = statSync(path);
    if (size > maximumBytes)
      throw tokenizerError(path, `is ${size} bytes long`, { expected: `at most ${maximumBytes}` });
    return readFileSync(path, 'utf8');
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    if (code === undefined || code.startsWith('MTL_')) throw cause;
    const what = code === 'ENOENT' ? 'no such file' : `cannot be read (${code})`;
    throw tokenizerError(path, what, { cause, remedy: 'check the path and its permissions' });
  }
}
