import { appendFileSync, mkdirSync } from 'node:fs';

/**
 * Notes that a test has seen ranks communicate over an engine; `npm test` prints how often each was.
 *
 * @param {string} engine
 * @returns {void}
 */
export function reportEngine(engine) {
  mkdirSync('build', { recursive: true });
  appendFileSync('build/engines-used.txt', `${engine}\n`);
}
