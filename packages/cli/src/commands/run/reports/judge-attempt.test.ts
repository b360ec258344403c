import { CommunicationError, formatError } from '@mtl/errors';
import { describe, expect, it } from 'vitest';
import type { RankExit } from '../launcher/rank-process.js';
import { type HostReport, jobFailure, judgeAttempt, shortenReport, type Verdict } from './judge-attempt.js';

const ended = (rank: number, change: Partial<RankExit> = {}): RankExit => ({
  rank,
  status: 0,
  signal: null,
  lastMessage: '',
  error: '',
  wasSignalled: false,
  ...change,
});
const report = (ends: readonly RankExit[], firstToFail?: number): HostReport => ({
  ends,
  firstToFail,
  wasSignalled: false,
});
const naming = (rank: number) =>
  new CommunicationError('MTL_RANK_DIED', `rank ${rank} died`, { details: { rank } });
const survivor = (rank: number) =>
  ended(rank, { status: 1, lastMessage: 'error[MTL_RANK_DIED]: rank 3 died' });
const killed = (rank: number) => ended(rank, { status: null, signal: 'SIGKILL' });
const good = report([ended(0), ended(1)]);
const judge = (
  reports: readonly HostReport[],
  change: Partial<Parameters<typeof judgeAttempt>[0]> = {},
): ReturnType<typeof judgeAttempt> =>
  judgeAttempt({ reports, firstHost: 0, reported: undefined, attempt: 0, maxRestarts: 1, ...change });

describe('judgeAttempt', () => {
  it('ends when no rank has failed', () => {
    expect(judge([good, report([ended(2), ended(3)])])).toMatchObject({ next: 'end' });
  });

  it('restarts on account of the rank that the others name, not of the survivor that ended first', () => {
    const reports = [report([survivor(0), survivor(1)], 0), report([survivor(2), killed(3)], 3)];
    expect(judge(reports, { reported: naming(3) })).toMatchObject({
      next: 'restart',
      message: 'rank 3 ended with signal SIGKILL',
      details: { rank: 3 },
    });
  });

  it('restarts although all ranks of a host were done', () => {
    expect(judge([good, report([killed(2), ended(3)], 2)], { firstHost: 1 })).toMatchObject({
      next: 'restart',
    });
  });

  it('names the first failure of the host that reported it first when no rank names one', () => {
    const reports = [
      report([ended(0, { status: 5 }), ended(1)], 0),
      report([ended(2), ended(3, { status: 7 })], 3),
    ];
    expect(judge(reports, { firstHost: 1 }).message).toBe('rank 3 ended with exit code 7');
    expect(judge(reports).message).toBe('rank 0 ended with exit code 5');
  });

  it('does not repeat wrong input of any host, and blames it', () => {
    const reports = [
      report([survivor(0), survivor(1)], 0),
      report([ended(2, { status: 2, lastMessage: 'error[MTL_HEADS]: 5' }), survivor(3)], 3),
    ];
    for (const reported of [undefined, naming(0)]) {
      expect(judge(reports, { reported })).toMatchObject({
        next: 'fail',
        message: 'rank 2 ended with exit code 2: error[MTL_HEADS]: 5',
        exitCode: 2,
      });
    }
  });

  it.each(['MTL_NO_UPDATE', 'MTL_LOSS_SPIKE'])('does not repeat a run that ended with %s', (code) => {
    const lastMessage = `error[${code}]: x`;
    const ends = [ended(0, { status: 1, lastMessage }), ended(1, { status: 1, lastMessage })];
    expect(judge([report(ends, 0)])).toMatchObject({ next: 'fail' });
  });

  it('does not repeat a run whose values were not finite, and blames the rank that found them', () => {
    const found = 'error[MTL_NOT_FINITE]: iteration 4: optimizer.exp_avg.weight[1] is NaN';
    const peer = (rank: number) =>
      ended(rank, { status: 1, lastMessage: 'error[MTL_CHECKPOINT_PEER]: iteration 4 was not saved' });
    const waiting = ended(1, {
      status: 1,
      lastMessage: 'error[MTL_NOT_FINITE]: barrier, rank 1 waited 1 s: rank 3 failed: x',
    });
    const reports = [
      report([peer(0), waiting], 0),
      report([peer(2), ended(3, { status: 1, lastMessage: found })], 2),
    ];
    for (const reported of [undefined, naming(0), naming(3)]) {
      expect(judge(reports, { reported })).toMatchObject({
        next: 'fail',
        isRepeated: true,
        message: `rank 3 ended with exit code 1: ${found}; not restarted, since the same steps would end there again`,
        exitCode: 1,
      });
    }
    expect(judge(reports, { attempt: 1 }).message).toBe(`rank 3 ended with exit code 1: ${found}`);
    // save failures with a different cause, such as a full disk, lead to a new attempt
    const full = ended(3, { status: 1, lastMessage: 'error[MTL_CHECKPOINT_DISK_FULL]: full' });
    expect(judge([report([peer(0), full], 0)])).toMatchObject({
      next: 'restart',
      message: 'rank 3 ended with exit code 1: error[MTL_CHECKPOINT_DISK_FULL]: full',
    });
  });

  it('gives wrong input in the words of the ranks, and names them where others did not find it', () => {
    const error = 'error[MTL_HEADS]: 5\n  remedy: 4';
    const wrong = (rank: number) => ended(rank, { status: 2, error, lastMessage: 'error[MTL_HEADS]: 5' });
    const late = { ...ended(1, { status: null, signal: 'SIGTERM' as const }), wasSignalled: true };
    expect(judge([report([wrong(0), wrong(1)], 0)]).input).toEqual({ error, onlyRanks: [] });
    // rank 3 was ended before it reported the same error
    expect(judge([report([wrong(0), late], 0)]).input).toEqual({ error, onlyRanks: [] });
    expect(judge([report([survivor(0), wrong(1)], 1)]).input).toEqual({ error, onlyRanks: [1] });
    expect(judge([report([survivor(0), killed(1)], 1)]).input).toBeUndefined();
  });

  it('fails after the last restart, and where a signal asked for an end', () => {
    const reports = [good, report([killed(2), ended(3)], 2)];
    expect(judge(reports, { attempt: 1 })).toMatchObject({ next: 'fail', exitCode: 1 });
    const signalled = [{ ...good, wasSignalled: true }, reports[1]!];
    expect(judge(signalled)).toMatchObject({ next: 'fail', exitCode: 1 });
  });

  it('reports what the others saw of a rank that was ended by the launcher', () => {
    const reports = [report([survivor(0), { ...killed(1), wasSignalled: true }], 0)];
    expect(judge(reports, { reported: naming(1) }).message).toBe('rank 1 failed: rank 1 died');
  });

  it('blames the rank that died, not a survivor whose end was seen first', () => {
    for (const reported of [undefined, naming(0), naming(3)]) {
      const reports = [report([survivor(0), survivor(1)], 0), report([survivor(2), killed(3)], 2)];
      expect(judge(reports, { reported }).message).toBe('rank 3 ended with signal SIGKILL');
    }
  });
});

const verdict: Verdict = {
  next: 'fail',
  message: 'rank 1 ended',
  exitCode: 2,
  isRepeated: false,
  details: {},
};
const formatFailure = (error: string, onlyRanks: readonly number[]): string =>
  formatError(jobFailure({ ...verdict, input: { error, onlyRanks } }, 0));

describe('jobFailure', () => {
  it('reports wrong input as the ranks did', () => {
    for (const error of [
      'error[MTL_FLAG]: no flag --x; expected --y\n  remedy: --help',
      'error[MTL_FLAG]: two lines\n  of it',
    ]) {
      expect(formatFailure(error, [])).toBe(error);
    }
    const error = jobFailure({ ...verdict, input: { error: 'error[MTL_FLAG]: x', onlyRanks: [] } }, 0);
    expect(error.exitCode).toBe(2);
  });

  it('names the ranks where others did not find it', () => {
    expect(formatFailure('error[MTL_FILE]: no file', [3])).toBe('error[MTL_FILE]: rank 3: no file');
    expect(formatFailure('error[MTL_FILE]: no file', [2, 3])).toBe('error[MTL_FILE]: ranks 2, 3: no file');
  });

  it('names the rank that failed otherwise, and the restarts', () => {
    expect(formatError(jobFailure({ ...verdict, exitCode: 1 }, 2, ['--save', 'runs/a']))).toBe(
      'error[MTL_RANK_FAILED]: rank 1 ended (after 2 restarts)\n  remedy: Read the messages of the rank above, ' +
        'then go on from the newest checkpoint in runs/a: the same command with --load runs/a',
    );
  });
});

describe('the remedy of a rank that failed', () => {
  const readRemedy = (words: string, change: Partial<Verdict> = {}): string | undefined =>
    jobFailure({ ...verdict, exitCode: 1, ...change }, 0, words.split(' ')).remedy;
  const read = 'Read the messages of the rank above';

  it('names the newest checkpoint and restarts', () => {
    const restarts = '; mtl run --max-restarts 3 then restarts all ranks by itself';
    for (const words of ['--save runs/lr=1e-3', '--save=runs/lr=1e-3'])
      expect(readRemedy(words)).toBe(
        `${read}, then go on from the newest checkpoint in runs/lr=1e-3: the same command with --load runs/lr=1e-3${restarts}`,
      );
    expect(readRemedy('--save a --load a')).toBe(
      `${read}, then go on from the newest checkpoint in a: the same command${restarts}`,
    );
  });

  it.each([
    ['--save a', { isRepeated: true }],
    // wrong input without a coded error
    ['--save a', { exitCode: 2 }],
    // the command is not a training run
    ['mtl -- generate --load a', {}],
  ] as const)('does not advise a restart that does not help: %s %j', (words, change) => {
    expect(readRemedy(words, change)).toBe(read);
  });

  it.each([
    ['--model=x', '--model'],
    ['--load_hf x', '--load-hf'],
    ['--load x --finetune', '--load and --finetune'],
    ['--load x', '--load'],
  ])('replaces the flags of the weights that a run began with: %s', (words, replaced) => {
    expect(readRemedy(`--save a ${words}`)).toContain(
      `the same command with --load a in place of ${replaced};`,
    );
  });

  it('advises less memory to a training run that was killed', () => {
    const killed = { details: { signal: 'SIGKILL' } };
    const why = 'SIGKILL mostly means that the memory of the host ran out (dmesg tells)';
    expect(readRemedy('--save a', killed)).toMatch(`${why}: take a smaller --micro-batch-size`);
    expect(readRemedy('--steps 3', killed)).toBe(`${why}. ${read}`);
  });
});

function makeReport(numRanks: number, error: string): HostReport {
  const end = { status: 2, signal: null, lastMessage: error, error, wasSignalled: false } as const;
  const ends: RankExit[] = Array.from({ length: numRanks }, (_, rank) => ({ ...end, rank }));
  return { firstToFail: 0, ends, wasSignalled: false };
}

describe('shortenReport', () => {
  it('keeps a long error of a few ranks whole, so that it is printed once', () => {
    const error = `error[MTL_FLAG_REQUIRED]: ${'--a-flag, '.repeat(200)}`;
    expect(shortenReport(makeReport(8, error)).ends.map((end) => end.error)).toEqual(Array(8).fill(error));
  });

  it('stays within a value of the store with very many ranks', () => {
    const limit = 1 << 20;
    for (const numRanks of [1, 8, 256, 800])
      for (const length of [499, 501, 5_000, 200_000]) {
        const report = shortenReport(makeReport(numRanks, 'e'.repeat(length)));
        expect(JSON.stringify(report).length).toBeLessThan(limit);
      }
  });

  it('leaves out what the launcher does not print again', () => {
    const [end] = shortenReport({
      ...makeReport(1, 'error[MTL_X]: x'),
      ends: [{ ...makeReport(1, 'x').ends[0]!, status: 1 }],
    }).ends;
    expect(end).toMatchObject({ status: 1, error: '' });
  });
});
