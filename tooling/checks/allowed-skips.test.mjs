import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { disallowedSkips } from './allowed-skips.mjs';

const list = '# what CI cannot run\n\npackages/a/test/x.test.ts: on a GPU # CI has none\n';

describe('disallowedSkips', () => {
  it('names every skip that is not on the list', () => {
    const skipped = [
      'packages/a/test/x.test.ts: on a GPU sums',
      'packages/a/test/x.test.ts: sums',
      'packages/b: on a GPU',
    ];
    expect(disallowedSkips(skipped, list)).toEqual(skipped.slice(1));
  });

  it('allows nothing without a reason', () => {
    expect(() => disallowedSkips([], 'packages/a/test/x.test.ts')).toThrow(/no reason/);
  });

  it('reads the list of CI', () => {
    const own = readFileSync(new URL('../../.ci/allowed-skips', import.meta.url), 'utf8');
    expect(disallowedSkips(['packages/comm: anything'], own)).toEqual(['packages/comm: anything']);
  });
});
