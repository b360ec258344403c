import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readSkipReasons, skipsByReason, textOfSkips } from './skip-reasons.mjs';

const list = `# what CI cannot run

there is no GPU
  packages/a/test/x.test.ts: on a GPU
  packages/b/test/
a tool is missing
  packages/a/test/y.test.ts
`;
const skipped = [
  'packages/a/test/x.test.ts: on a GPU sums',
  'packages/a/test/x.test.ts: sums',
  'packages/b/test/z.test.ts: on a GPU',
];
const skips = skipsByReason(skipped, readSkipReasons(list));

describe('skips', () => {
  it('are told by reason; those without one are told apart', () => {
    expect([...skips.byReason]).toEqual([['there is no GPU', [skipped[0], skipped[2]]]]);
    expect(skips.others).toEqual([skipped[1]]);
  });

  it('are a line for each reason, and for each test without one', () => {
    expect(textOfSkips(skips, 'build/skipped-tests.txt')).toBe(
      'skipped: 3 (build/skipped-tests.txt)\n  2 there is no GPU\n  1 packages/a/test/x.test.ts: sums',
    );
    expect(textOfSkips(skipsByReason([], []), 'a.txt')).toBe('nothing was skipped');
  });

  it('need a reason', () => {
    expect(() => readSkipReasons('  packages/a/test/x.test.ts')).toThrow(/below no reason/);
  });

  it('of CI have their reasons', () => {
    const own = readFileSync(new URL('../../.ci/allowed-skips', import.meta.url), 'utf8');
    const reasons = readSkipReasons(own);
    expect(reasons.every(({ beginnings }) => beginnings.length > 0)).toBe(true);
    expect(skipsByReason(['packages/comm: anything'], reasons).others).toEqual(['packages/comm: anything']);
  });
});
