import { appendFileSync, mkdirSync } from 'node:fs';

function note(file, text) {
  mkdirSync('build', { recursive: true });
  appendFileSync(`build/${file}`, `${text}\n`);
}

/**
 * Records that a program other than vitest left something out, with the reason; `npm test` counts it with the
 * skipped tests.
 */
export const reportSkip = (text) => note('skipped.txt', text);

/** Records a failed test of a program other than vitest; `npm test` counts it with the failed tests. */
export const reportFailure = (text) => note('failed.txt', text);
