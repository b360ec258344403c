import { describe, expect, it } from 'vitest';
import type { RankExit } from '../launcher/rank-process.js';
import { type HostReport, shortenReport } from './host-report.js';

function reportOf(numRanks: number, error: string): HostReport {
  const end = { status: 2, signal: null, lastMessage: error, error, wasSignalled: false } as const;
  const ends: RankExit[] = Array.from({ length: numRanks }, (_, rank) => ({ ...end, rank }));
  return { firstToFail: 0, ends, wasSignalled: false };
}

describe('shortenReport', () => {
  it('keeps a long error of a few ranks whole, so that it is printed once', () => {
    const error = `error[MTL_FLAG_REQUIRED]: ${'--a-flag, '.repeat(200)}`;
    expect(shortenReport(reportOf(8, error)).ends.map((end) => end.error)).toEqual(Array(8).fill(error));
  });

  it('stays within a value of the store with very many ranks', () => {
    const limit = 1 << 20;
    for (const numRanks of [1, 8, 256, 800])
      for (const length of [499, 501, 5_000, 200_000]) {
        const report = shortenReport(reportOf(numRanks, 'e'.repeat(length)));
        expect(JSON.stringify(report).length).toBeLessThan(limit);
      }
  });

  it('leaves out what the launcher does not print again', () => {
    const [end] = shortenReport({
      ...reportOf(1, 'error[MTL_X]: x'),
      ends: [{ ...reportOf(1, 'x').ends[0]!, status: 1 }],
    }).ends;
    expect(end).toMatchObject({ status: 1, error: '' });
  });
});
