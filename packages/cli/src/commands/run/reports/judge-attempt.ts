import { flagsOfStart } from '@mtl/configuration/saved';
import { CommunicationError, ConfigurationError, type MtlError } from '@mtl/errors';
import type { RankExit } from '../launcher/rank-process.js';

/** The result of an attempt on one host, after all processes of the host have ended. */
export interface HostReport {
  /** The first rank that failed without a signal from the launcher; undefined if there is no such rank. */
  readonly firstToFail: number | undefined;
  readonly ends: readonly RankExit[];
  /** True if this launcher received a signal, which ends the job. */
  readonly wasSignalled: boolean;
}

/** The maximum number of characters that are kept from a rank's last error. */
const maximumMessageLength = 400;
/**
 * How many characters the errors of all ranks of a host may have together, and how many characters each rank
 * may always use.
 */
const maximumErrorsLength = 100_000;
const leastErrorLength = 500;

/** Shortens a report so that it fits into a value of the store, even if the host has many ranks. */
export function shortenReport(report: HostReport): HostReport {
  const maximumErrorLength = Math.max(leastErrorLength, maximumErrorsLength / report.ends.length);
  const ends = report.ends.map((end) => ({
    ...end,
    lastMessage: end.status === 0 ? '' : end.lastMessage.slice(0, maximumMessageLength),
    // an error is kept either completely or not at all
    error: end.status === wrongInputStatus && end.error.length <= maximumErrorLength ? end.error : '',
  }));
  return { ...report, ends };
}

/** The exit status of a program with wrong input. A restart would not help. */
export const wrongInputStatus = 2;

/**
 * Matches errors that report another rank's failure. They come from @mtl/comm, or from a save by all ranks.
 */
const blamesAnother =
  /^error\[MTL_(RANK_DIED|RANK_LEFT|HEARTBEAT|TIMEOUT|ABORTED|STORE_LOST|WATCHDOG|CHECKPOINT_PEER)\]/;
/**
 * Matches the message of a wait that failed because another rank ended with an error. The message contains
 * the code of the other rank's error.
 */
const tellsOfAnother = /, rank \d+ waited [\d.]+ s: rank \d+ failed: /;

/** Returns true if a rank's last message reports the failure of another rank. */
export function blamesAnotherRank({ lastMessage }: RankExit): boolean {
  return blamesAnother.test(lastMessage) || tellsOfAnother.test(lastMessage);
}

/** Formats the exit of a rank: its status or signal, and its last message if there is one. */
export function formatRankExit({ rank, status, signal, lastMessage }: RankExit): string {
  const how = signal === null ? `exit code ${status}` : `signal ${signal}`;
  return `rank ${rank} ended with ${how}${lastMessage === '' ? '' : `: ${lastMessage}`}`;
}

/** An error about wrong input to the program, as reported by ranks. */
interface WrongInput {
  /** The error as the ranks printed it. */
  readonly error: string;
  /** The ranks that reported the error; empty if all ranks did. */
  readonly onlyRanks: readonly number[];
}

/** The decision after an attempt, which all launchers carry out. */
export interface Verdict {
  readonly next: 'end' | 'restart' | 'fail';
  /** A message about the failed rank and its failure; empty after success. */
  readonly message: string;
  readonly exitCode: 1 | 2;
  /** True if every restart would fail in the same way. */
  readonly isRepeated: boolean;
  readonly details: Readonly<Record<string, unknown>>;
  /** The coded error for wrong input, if wrong input ended the job. */
  readonly input?: WrongInput;
}

interface JudgedAttempt {
  /** The reports of all hosts. */
  readonly reports: readonly HostReport[];
  /** The host that was the first to report a failed process. */
  readonly firstHost: number | undefined;
  /** The failure that ranks reported to the store. */
  readonly reported: MtlError | undefined;
  /** How often the job has been restarted so far. */
  readonly attempt: number;
  readonly maxRestarts: number;
}

/**
 * Returns true if a training run failed with a result that a restart would compute again. The same checkpoint
 * and samples give the same results, bit for bit.
 */
function repeatsItself({ lastMessage }: RankExit): boolean {
  return /^error\[MTL_(NOT_FINITE|LOSS_SPIKE|NO_UPDATE)\]/.test(lastMessage);
}

/** Decides whether the job has ended, restarts or has failed, and which rank caused the failure. */
export function judgeAttempt(judged: JudgedAttempt): Verdict {
  const { reports, firstHost = 0, attempt, maxRestarts } = judged;
  const failed = reports.flatMap(({ firstToFail }) => (firstToFail === undefined ? [] : [firstToFail]));
  if (failed.length === 0) return { next: 'end', message: '', exitCode: 1, isRepeated: false, details: {} };
  const ends = reports.flatMap((report) => report.ends);
  const first = reports[firstHost]?.firstToFail ?? failed[0];
  const end = blamed(ends, first, judged.reported);
  const isRepeated = repeatsItself(end);
  const isFinal =
    isRepeated || end.status === wrongInputStatus || reports.some(({ wasSignalled }) => wasSignalled);
  const isRefused = isRepeated && attempt < maxRestarts;
  const why = isRefused ? '; not restarted, since the same steps would end there again' : '';
  return {
    next: isFinal || attempt === maxRestarts ? 'fail' : 'restart',
    message: writeMessage(end, judged.reported) + why,
    exitCode: end.status === wrongInputStatus ? 2 : 1,
    isRepeated,
    details: { rank: end.rank, status: end.status, signal: end.signal },
    ...(end.status === wrongInputStatus && end.error !== '' ? { input: findWrongInput(end, ends) } : {}),
  };
}

/**
 * Returns the wrong input that a rank reported, and whether all ranks reported it. If the launcher ended a
 * rank before the rank could report, the rank counts as if it had reported the same wrong input.
 */
function findWrongInput({ error }: RankExit, ends: readonly RankExit[]): WrongInput {
  const others = ends.filter((end) => end.error !== error && !end.wasSignalled);
  const same = ends.filter((end) => end.error === error).map(({ rank }) => rank);
  return { error, onlyRanks: others.length === 0 ? [] : same };
}

/**
 * Returns the rank that caused the failure. In order of preference, this is a rank with wrong input, a rank
 * with values that are not finite, or the rank that other ranks name in their errors. If no rank is named, or
 * if the named rank itself names a different rank, the result is a rank that failed without a signal, or else
 * the first rank.
 */
function blamed(
  ends: readonly RankExit[],
  first: number | undefined,
  reported: MtlError | undefined,
): RankExit {
  const ofRank = (rank: unknown): RankExit | undefined => ends.find((end) => end.rank === rank);
  const [named, atFirst] = [ofRank(reported?.details.rank), ofRank(first)];
  const candidates = [named, atFirst, ...ends.filter((end) => end.status !== 0 && !end.wasSignalled)];
  const known = candidates.filter((end) => end !== undefined);
  return (
    [named, ...ends].find((end) => end?.status === wrongInputStatus) ??
    [named, ...ends].find((end) => end !== undefined && repeatsItself(end) && !blamesAnotherRank(end)) ??
    known.find((end) => !blamesAnotherRank(end)) ??
    known[0]!
  );
}

function writeMessage(end: RankExit, reported: MtlError | undefined): string {
  const names = reported?.details.rank === end.rank;
  // other ranks report the cause more precisely if the launcher ended this rank, or if this rank's status is
  // 0
  const sawMore = names && (end.status === 0 || (end.wasSignalled && end.signal !== null));
  return sawMore ? `rank ${end.rank} failed: ${reported.message}` : formatRankExit(end);
}

/**
 * Returns the error with which a job ends: the failed rank and its failure, or the wrong input exactly as the
 * ranks reported it.
 *
 * @param attempt how often the job has been restarted
 * @param args the program's arguments
 */
export function jobFailure(verdict: Verdict, attempt: number, args: readonly string[] = []): MtlError {
  const { message, exitCode, details, input } = verdict;
  const [, code, what, remedy] =
    /^error\[(\w+)\]: (.*?)(?:\n {2}remedy: (.*))?$/s.exec(input?.error ?? '') ?? [];
  if (code === undefined) {
    const afterRestarts = attempt === 0 ? '' : ` (after ${attempt} restarts)`;
    const remedy = chooseRemedy(verdict, attempt, args);
    return new CommunicationError('MTL_RANK_FAILED', `${message}${afterRestarts}`, {
      remedy,
      exitCode,
      details,
    });
  }
  const [only, ...more] = input!.onlyRanks;
  const whose =
    only === undefined ? '' : `${more.length === 0 ? 'rank' : 'ranks'} ${[only, ...more].join(', ')}: `;
  return new ConfigurationError(code as `MTL_${string}`, `${whose}${what}`, {
    ...(remedy === undefined ? {} : { remedy }),
    details,
  });
}

/**
 * Returns the remedy: find out why the rank ended and, if a restart may help, start from the newest
 * checkpoint.
 */
function chooseRemedy(
  { details, exitCode, isRepeated }: Verdict,
  attempt: number,
  args: readonly string[],
): string {
  const save = valueOfFlag(args, '--save');
  const smaller = save === undefined ? '' : ': take a smaller --micro-batch-size, or see mtl plan';
  const memory =
    details.signal === 'SIGKILL'
      ? `SIGKILL mostly means that the memory of the host ran out (dmesg tells)${smaller}. `
      : '';
  const messages = `${memory}Read the messages of the rank above`;
  if (save === undefined || isRepeated || exitCode !== 1) return messages;
  const more = attempt === 0 ? '; mtl run --max-restarts 3 then restarts all ranks by itself' : '';
  return `${messages}, then go on from the newest checkpoint in ${save}: the same command${changeLoad(save, args)}${more}`;
}

/**
 * Returns a description of how to change the command so that it loads `save`. Other flags for initial weights
 * must be removed, because a run has only one source of weights.
 */
function changeLoad(save: string, args: readonly string[]): string {
  const given = ['model', ...flagsOfStart].filter((name) =>
    args.some((word) => word.split('=', 1)[0]!.replaceAll('_', '-') === `--${name}`),
  );
  if (given.join() === 'load' && valueOfFlag(args, '--load') === save) return '';
  const replaced = given.length === 0 ? '' : ` in place of ${given.map((name) => `--${name}`).join(' and ')}`;
  return ` with --load ${save}${replaced}`;
}

/** Returns the value of a flag in `--flag value` or `--flag=value`; undefined if the flag is missing. */
function valueOfFlag(args: readonly string[], flag: string): string | undefined {
  const at = args.findIndex((word) => word === flag || word.startsWith(`${flag}=`));
  if (at < 0) return undefined;
  return args[at] === flag ? args[at + 1] : args[at]!.slice(flag.length + 1);
}
