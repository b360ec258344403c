import { readFileSync } from 'node:fs';

/** The lines of a metrics.jsonl. */
export function readMetrics(path) {
  return readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}
