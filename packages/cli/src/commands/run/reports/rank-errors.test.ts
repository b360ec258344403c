import { describe, expect, it } from 'vitest';
import type { RankExit } from '../launcher/rank-process.js';
import { RankErrors } from './rank-errors.js';

const ended = (rank: number, status: number, error: string): RankExit => ({
  rank,
  status,
  signal: null,
  error,
  lastMessage: error.split('\n')[0]!,
  wasSignalled: false,
});
const flag = 'error[MTL_FLAG]: no flag --x\n  remedy: --help';

function printErrors(ends: readonly RankExit[], input?: string): string {
  let shown = '';
  const errors = new RankErrors((lines) => {
    shown += lines.toString();
  });
  for (const end of ends) errors.push(end);
  errors.settle(input === undefined ? {} : { input: { error: input, onlyRanks: [] } });
  return shown;
}

describe('RankErrors', () => {
  it('leaves wrong input that all have found to the launcher', () => {
    expect(printErrors([ended(0, 2, flag), ended(1, 2, flag)], flag)).toBe('');
  });

  it('shows errors that differ, each with its rank and all lines', () => {
    const other = 'error[MTL_FILE]: no file\n  remedy: write it';
    expect(
      printErrors([ended(0, 2, flag), ended(1, 2, other), ended(2, 1, 'error[MTL_LOSS]: NaN')], flag),
    ).toBe('[2] error[MTL_LOSS]: NaN\n[1] error[MTL_FILE]: no file\n[1]   remedy: write it\n');
  });

  it('shows the same failure once, and who had it', () => {
    const failure = 'error[MTL_CHECKPOINT]: torn';
    expect(printErrors([ended(1, 1, failure), ended(0, 1, failure), ended(2, 1, failure)])).toBe(
      `[1] ${failure}\n[0] [2] the same error as rank 1\n`,
    );
  });

  it('shows what ranks saw of another, unless wrong input explains it', () => {
    const echo = 'error[MTL_ABORTED]: rank 0 gave up';
    // the error of a waiting rank has the code of the rank that failed
    const wait =
      'error[MTL_FLAG]: group world [0, 1], allReduce (collective 5), rank 1 waited 0.050 s: rank 0 failed: no flag';
    for (const seen of [echo, wait]) {
      expect(printErrors([ended(0, 2, flag), ended(1, 1, seen)], flag)).toBe('');
    }
    expect(printErrors([ended(0, 7, ''), ended(1, 1, echo)])).toBe(`[1] ${echo}\n`);
  });

  it('shows wrong input that the launcher does not say', () => {
    expect(printErrors([ended(0, 2, flag)])).toBe('[0] error[MTL_FLAG]: no flag --x\n[0]   remedy: --help\n');
  });
});
