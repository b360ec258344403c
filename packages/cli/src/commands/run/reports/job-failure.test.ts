import { formatError } from '@mtl/errors';
import { describe, expect, it } from 'vitest';
import { jobFailure } from './job-failure.js';
import type { Verdict } from './verdict.js';

const verdict: Verdict = { next: 'fail', message: 'rank 1 ended', exitCode: 2, details: {} };
const failureOf = (error: string, onlyRanks: readonly number[]): string =>
  formatError(jobFailure({ ...verdict, input: { error, onlyRanks } }, 0));

describe('jobFailure', () => {
  it('reports wrong input as the ranks did', () => {
    for (const error of [
      'error[MTL_FLAG]: no flag --x; expected --y\n  remedy: --help',
      'error[MTL_FLAG]: two lines\n  of it',
    ]) {
      expect(failureOf(error, [])).toBe(error);
    }
    const error = jobFailure({ ...verdict, input: { error: 'error[MTL_FLAG]: x', onlyRanks: [] } }, 0);
    expect(error.exitCode).toBe(2);
  });

  it('names the ranks where others did not find it', () => {
    expect(failureOf('error[MTL_FILE]: no file', [3])).toBe('error[MTL_FILE]: rank 3: no file');
    expect(failureOf('error[MTL_FILE]: no file', [2, 3])).toBe('error[MTL_FILE]: ranks 2, 3: no file');
  });

  it('names the rank that failed otherwise, and the restarts', () => {
    const { input: _, ...other } = verdict;
    expect(formatError(jobFailure(other, 2))).toBe('error[MTL_RANK_FAILED]: rank 1 ended (after 2 restarts)');
  });
});
