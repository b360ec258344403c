import { appendFileSync, mkdirSync } from 'node:fs';

/** Notes what a program other than vitest left out, and why; `npm test` counts it with the skipped tests. */
export function reportSkip(text) {
  mkdirSync('build', { recursive: true });
  appendFileSync('build/skipped.txt', `${text}\n`);
}
