import { expect, it } from 'vitest';
import { SearchReport } from './search-report.js';

const progress = (numEstimated: number, numFound = 0) => ({
  numEstimated,
  numCandidates: 100,
  numPlanned: numFound + 2,
  numFound,
  numWanted: 5,
});

function written(isTTY: boolean, seconds: readonly [number, number, number?][]): string[] {
  const lines: string[] = [];
  let now = 0;
  const report = new SearchReport({ isTTY, columns: 100, write: (text) => lines.push(text) }, () => now);
  for (const [at, numEstimated, numFound] of seconds) {
    now = 1000 * at;
    report.update(progress(numEstimated, numFound));
  }
  report.close();
  return lines;
}

it('writes a line every ten seconds where there is no terminal', () => {
  expect(
    written(false, [
      [0, 0],
      [9, 40],
      [11, 50],
      [12, 60],
      [20, 70],
      [21, 100, 0],
      [35, 100, 3],
    ]),
  ).toEqual([
    'estimating layouts: 50 of 100\n',
    'planning whole: 2 layouts, 0 of 5 wanted fit\n',
    'planning whole: 5 layouts, 3 of 5 wanted fit\n',
  ]);
});

it('draws one bar of both parts on a terminal', () => {
  const lines = written(true, [
    [0, 0],
    [10, 50],
    [20, 100, 0],
    [30, 100, 4],
  ]);
  expect(lines[1]).toContain(']  25% 30 s left estimating layouts: 50 of 100');
  expect(lines[2]).toContain(']  50% 20 s left planning whole: 2 layouts, 0 of 5 wanted fit');
  expect(lines[3]).toContain(']  90% ');
  expect(lines.at(-1)).toBe('\r\x1b[K');
});
