import { readFileSync } from 'node:fs';

/** The steps in a metrics.jsonl, which holds records of evaluations too. */
export function readMetrics(path) {
  return readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter(({ type }) => type === undefined);
}
