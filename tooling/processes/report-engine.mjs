import { appendFileSync, mkdirSync } from 'node:fs';

/**
 * Records that a test has seen ranks communicate over `engine`. `npm test` prints how often each engine was
 * used.
 *
 * @param {string} engine
 * @returns {void}
 */
export function reportEngine(engine) {
  mkdirSync('build', { recursive: true });
  appendFileSync('build/engines-used.txt', `${engine}\n`);
}
