import { readFileSync } from 'node:fs';

/**
 * Returns the steps in a metrics.jsonl, which also contains records of evaluations.
 *
 * @param {string} path
 * @returns {Record<string, number>[]}
 */
export function readMetrics(path) {
  return readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter(({ type }) => type === undefined);
}
