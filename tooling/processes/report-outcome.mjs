import { appendFileSync, mkdirSync } from 'node:fs';

function note(file, text) {
  mkdirSync('build', { recursive: true });
  appendFileSync(`build/${file}`, `${text}\n`);
}

/** Notes what a program other than vitest left out, and why; `npm test` counts it with the skipped tests. */
export const reportSkip = (text) => note('skipped.txt', text);

/** Notes a test that failed in a program other than vitest; `npm test` counts it with the failed tests. */
export const reportFailure = (text) => note('failed.txt', text);
