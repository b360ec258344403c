import { CommunicationError, MtlError, UsageError } from '@mtl/errors';
import type { ProcessEnvironment } from '../environment/process-environment.js';
import { launchError, type Variables } from '../environment/variable-reader.js';
import type { NativeStore } from '../store/store.js';

/**
 * The times in milliseconds after which a process that waits for others at the start reports the missing
 * ranks: first after `first`, which is longer than a normal start, then after every further `next`.
 */
export const waitNoticesMs = { first: 5_000, next: 60_000 } as const;

const defaultSeconds = 300;

/**
 * Returns how long processes wait for each other at the start, in milliseconds: MTL_JOIN_TIMEOUT (in
 * seconds), or 300 s by default.
 *
 * @throws ConfigurationError MTL_LAUNCH_ENVIRONMENT
 */
export function readJoinTimeout({ MTL_JOIN_TIMEOUT: text }: Variables): number {
  const seconds = text === undefined || text === '' ? defaultSeconds : Number(text);
  if (seconds > 0 && seconds <= 1e6) return seconds * 1000;
  throw launchError(`MTL_JOIN_TIMEOUT=${text}`, {
    expected: 'seconds, above 0 and at most 1000000',
    remedy: 'set it to how long processes shall wait for each other at the start, or leave it out for 300',
  });
}

interface RankZeroNeverCameOptions {
  /** The rank that waited. */
  readonly rank: number;
  readonly waitedMs: number;
  /**
   * The end of the message, after the waiting time: the reason for the wait, or the error of the last
   * attempt.
   */
  readonly detail: string;
  /** The names of the variables that must have the same values on all ranks, worded for the message. */
  readonly alike: string;
  readonly cause?: MtlError;
}

/** Creates the error `MTL_TIMEOUT` for a rank that did not find the store of rank 0. */
export function rankZeroNeverCame(options: RankZeroNeverCameOptions): CommunicationError {
  const { rank, waitedMs, detail, alike, cause } = options;
  const waited = `rank ${rank} waited ${(waitedMs / 1000).toFixed(1)} s${detail}`;
  return new CommunicationError(
    'MTL_TIMEOUT',
    `rank 0, which holds the store of the job, never came: ${waited}`,
    {
      remedy:
        `see what rank 0 says; ${alike} must be the same for all ranks; ` +
        'MTL_JOIN_TIMEOUT=SECONDS waits longer',
      details: { rank: 0, by: rank, waitedMs },
      ...(cause === undefined ? {} : { cause }),
    },
  );
}

interface GatherRanksOptions {
  readonly environment: ProcessEnvironment;
  readonly store: NativeStore;
  readonly timeoutMs: number;
  /** Returns the number of milliseconds since this process began to join. */
  readonly waitedMs: () => number;
  /** Called on the lowest rank that has joined, with a message that names the missing ranks. */
  readonly onWait: (text: string) => void;
}

/**
 * Announces this rank, waits for all other ranks, and returns the ranks of every host.
 *
 * @throws CommunicationError MTL_TIMEOUT, which names the ranks that did not join
 */
export function gatherRanks(options: GatherRanksOptions): number[][] {
  const { rank, worldSize, nodeRank, numNodes, localWorldSize } = options.environment;
  const { store } = options;
  store.set(formatKey(rank), new TextEncoder().encode(String(nodeRank)));
  waitForAll(options);
  const hosts: number[][] = Array.from({ length: numNodes }, () => []);
  for (let each = 0; each < worldSize; each++) {
    const host = hosts[findHost(store, each)!];
    if (host === undefined)
      throw new UsageError('MTL_LAUNCH_ENVIRONMENT', `rank ${each} is on none of ${numNodes} hosts`);
    host.push(each);
  }
  if (hosts[nodeRank]!.length === localWorldSize) return hosts;
  throw new UsageError(
    'MTL_LAUNCH_ENVIRONMENT',
    `ranks ${hosts[nodeRank]!.join(', ')} say that they are on host ${nodeRank}, which has ${localWorldSize} processes`,
  );
}

const formatKey = (rank: number): string => `rank/${rank}`;

/** Returns the host that a rank has announced; undefined if the rank has not joined. */
function findHost(store: NativeStore, rank: number): number | undefined {
  const host = store.find(formatKey(rank));
  return host === undefined ? undefined : Number(new TextDecoder().decode(host));
}

function waitForAll({ environment, store, timeoutMs, waitedMs, onWait }: GatherRanksOptions): void {
  const { rank, worldSize } = environment;
  const keys = Array.from({ length: worldSize }, (_, each) => formatKey(each));
  const deadline = performance.now() + timeoutMs;
  for (let patienceMs: number = waitNoticesMs.first; ; patienceMs = waitNoticesMs.next) {
    const leftMs = Math.max(0, deadline - performance.now());
    try {
      store.wait(keys, Math.min(patienceMs, leftMs));
      return;
    } catch (error) {
      if (!MtlError.isInstance(error) || error.code !== 'MTL_TIMEOUT') throw error;
    }
    const { missing, text, first } = missingRanks(environment, store);
    if (missing.length === 0) return; // they have joined meanwhile
    if (patienceMs >= leftMs) throw absence({ environment, missing, text, waitedMs: waitedMs() });
    if (first === rank) onWait(`rank ${rank} has waited ${(waitedMs() / 1000).toFixed(0)} s for ${text}`);
  }
}

/**
 * Returns the ranks that have not joined, as a list and as a string for messages, and the lowest rank that
 * has joined.
 */
function missingRanks(
  { worldSize, numNodes }: ProcessEnvironment,
  store: NativeStore,
): { readonly missing: readonly number[]; readonly text: string; readonly first: number | undefined } {
  const hostOfRank = Array.from({ length: worldSize }, (_, rank) => findHost(store, rank));
  const missing = hostOfRank.flatMap((host, rank) => (host === undefined ? [rank] : []));
  const silent = Array.from({ length: numNodes }, (_, host) => host).filter(
    (host) => !hostOfRank.includes(host),
  );
  const names = `rank${missing.length === 1 ? '' : 's'} ${missing.join(', ')} of ${worldSize}`;
  const hosts =
    silent.length === 0 ? '' : ` (nothing from host${silent.length === 1 ? '' : 's'} ${silent.join(', ')})`;
  const first = hostOfRank.findIndex((host) => host !== undefined);
  return { missing, text: `${names}${hosts}`, first };
}

function absence(options: {
  readonly environment: ProcessEnvironment;
  readonly missing: readonly number[];
  readonly text: string;
  readonly waitedMs: number;
}): CommunicationError {
  const { environment, missing, text, waitedMs } = options;
  const waited = `${(waitedMs / 1000).toFixed(1)} s`;
  return new CommunicationError(
    'MTL_TIMEOUT',
    `rank ${environment.rank} waited ${waited} for ${text}, which never came`,
    {
      remedy:
        'see what the missing ranks say, and whether their hosts reach the address of the store; ' +
        'MTL_JOIN_TIMEOUT=SECONDS waits longer',
      details: { rank: missing[0], ranks: missing, group: 'world', operation: 'join', waitedMs },
    },
  );
}
