import { appendFileSync, mkdirSync } from 'node:fs';

function note(file, text) {
  mkdirSync('build', { recursive: true });
  appendFileSync(`build/${file}`, `${text}\n`);
}

/**
 * Records that a program other than vitest left something out, with the reason. `npm test` counts the record
 * as a skipped test.
 */
export const reportSkip = (text) => note('skipped.txt', text);

/** Records a failed test of a program other than vitest. `npm test` counts it as a failed test. */
export const reportFailure = (text) => note('failed.txt', text);
