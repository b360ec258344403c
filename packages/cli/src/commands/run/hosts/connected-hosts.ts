import { setTimeout as pause } from 'node:timers/promises';
import {
  everyInterfaceNotice,
  NativeJob,
  NativeStore,
  type StoreServer,
  waitNoticesMs,
} from '@mtl/comm/launcher';
import { CommunicationError, ConfigurationError, MtlError } from '@mtl/errors';
import type { LaunchOptions } from '../launcher/launch-options.js';
import { type HostReport, shortenReport, type Verdict } from '../reports/judge-attempt.js';
import { type JobHosts, type Judge, type RankFailure, serveStore } from './job-hosts.js';

/**
 * The timeout, in milliseconds, for a wait that must not time out. It is longer than any training run. The
 * wait ends when the value arrives, or when a launcher is lost.
 */
const noLimitMs = 1e11;
/** How long an attempt to find host 0 blocks this process, at most, in milliseconds. */
const lookMs = 1_000;
/**
 * How long host 0 waits at the end, at most, in milliseconds, until the other hosts have read its last
 * message.
 */
const leaveLimitMs = 5_000;
const member = 'the launcher of host';

/** The job settings that must be the same on all hosts. */
interface Terms {
  readonly nprocPerNode: number;
  readonly maxRestarts: number;
}

/** Host 0's answer to all hosts. It starts the job or describes the problem that prevents the start. */
interface Start {
  readonly problem?: { readonly code: `MTL_${string}`; readonly message: string; readonly exitCode: 1 | 2 };
}

interface ToldFailure extends RankFailure {
  readonly host: number;
}

const encode = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const decode = <Value>(bytes: Uint8Array): Value => JSON.parse(new TextDecoder().decode(bytes)) as Value;

/**
 * Connects the launchers of several hosts, through a separate store at --master-addr and --master-port that
 * exists as long as the job. Heartbeats of the store detect an ended launcher or a lost host. In both cases
 * the job ends, because no launcher could restart the processes of that host.
 */
export class ConnectedHosts implements JobHosts {
  readonly #nodeRank: number;
  readonly #numNodes: number;
  readonly #job: NativeJob;
  readonly #store: NativeStore;
  readonly #server: StoreServer | undefined;
  /** Unfinished waits in other threads. All waits must end before the job is closed. */
  readonly #waits = new Set<Promise<unknown>>();

  private constructor(
    { nodeRank, numNodes }: LaunchOptions,
    parts: {
      readonly job: NativeJob;
      readonly store: NativeStore;
      readonly server: StoreServer | undefined;
    },
  ) {
    this.#nodeRank = nodeRank;
    this.#numNodes = numNodes;
    this.#job = parts.job;
    this.#store = parts.store;
    this.#server = parts.server;
  }

  /**
   * Waits until the launchers of all hosts have joined.
   *
   * @param signal ends the wait. The promise is then rejected with the signal's reason
   * @throws CommunicationError MTL_TIMEOUT, which names the hosts that did not join; ConfigurationError
   *   MTL_FLAG_CONFLICT
   */
  static async join(options: LaunchOptions, signal: AbortSignal): Promise<ConnectedHosts> {
    const { nodeRank, masterAddress, masterPort, secret, heartbeatLimitMs, joinTimeoutMs } = options;
    const deadline = performance.now() + joinTimeoutMs;
    const ports = [masterPort];
    const common = { address: masterAddress, ports, secret, worldSize: options.numNodes, attempt: 0, member };
    const server =
      nodeRank === 0 ? serveStore({ ...common, hostRank: 0, heartbeatLimitMs }, options) : undefined;
    const notice = everyInterfaceNotice({ address: masterAddress, source: '--master-addr' });
    if (server !== undefined && notice !== undefined)
      process.stderr.write(`warning[MTL_STORE_ADDRESS]: ${notice}\n`);
    const job = new NativeJob(nodeRank);
    let hosts: ConnectedHosts | undefined;
    try {
      const store = await findStore({ ...common, job, deadline, signal });
      hosts = new ConnectedHosts(options, { job, store, server });
      await hosts.#gather(options, { deadline, signal });
      return hosts;
    } catch (error) {
      if (hosts !== undefined) await hosts.close();
      else job.close();
      server?.close();
      throw error;
    }
  }

  async begin(attempt: number, port: number | undefined): Promise<number> {
    const key = `attempt/${attempt}/port`;
    if (port !== undefined) this.#store.set(key, encode(port));
    return await this.#get<number>(key);
  }

  tellFailure(attempt: number, failure: RankFailure): void {
    const told: ToldFailure = { ...failure, host: this.#nodeRank };
    try {
      this.#store.set(`attempt/${attempt}/failed`, encode(told));
    } catch {
      // another host has already reported a failure, or is lost; in both cases, the waiting hosts have been
      // informed
    }
  }

  failure(attempt: number): Promise<RankFailure> {
    return this.#get<ToldFailure>(`attempt/${attempt}/failed`);
  }

  async settle(attempt: number, report: HostReport, judge: Judge): Promise<Verdict> {
    const formatReportKey = (host: number): string => `attempt/${attempt}/report/${host}`;
    this.#store.set(formatReportKey(this.#nodeRank), encode(shortenReport(report)));
    const verdict = `attempt/${attempt}/verdict`;
    if (this.#nodeRank === 0) {
      const reports: HostReport[] = [];
      for (let host = 0; host < this.#numNodes; host++) reports.push(await this.#get(formatReportKey(host)));
      const failed = this.#store.find(`attempt/${attempt}/failed`);
      this.#store.set(verdict, encode(judge(reports, failed && decode<ToldFailure>(failed).host)));
    }
    return await this.#get(verdict);
  }

  async close(): Promise<void> {
    const isFailed = this.#job.failure !== undefined;
    this.#store.close();
    await Promise.allSettled(this.#waits);
    this.#job.close();
    this.#server?.close({ timeoutMs: isFailed ? 0 : leaveLimitMs });
  }

  /**
   * On host 0, checks that all hosts have joined with the same settings, and sends the result to all hosts.
   */
  async #gather(
    { numProcessesPerNode, maxRestarts, joinTimeoutMs }: LaunchOptions,
    { deadline, signal }: { readonly deadline: number; readonly signal: AbortSignal },
  ): Promise<void> {
    const terms: Terms = { nprocPerNode: numProcessesPerNode, maxRestarts };
    this.#store.set(`host/${this.#nodeRank}`, encode(terms));
    const notices = new WaitNotices(this.#nodeRank, () => this.#absent(terms).join(', '));
    let problem: Start['problem'];
    try {
      if (this.#nodeRank === 0) {
        const start: Start = await this.#compare({ terms, deadline, signal, joinTimeoutMs });
        this.#store.set('start', encode(start));
      }
      // this wait needs no time limit, because host 0 sends an answer after its own time limit
      ({ problem } = await this.#get<Start>('start', { signal }));
    } finally {
      notices.end();
    }
    if (problem === undefined) return;
    const { code, message, exitCode } = problem;
    throw exitCode === 2 ? new ConfigurationError(code, message) : new CommunicationError(code, message);
  }

  async #compare(options: {
    readonly terms: Terms;
    readonly deadline: number;
    readonly signal: AbortSignal;
    readonly joinTimeoutMs: number;
  }): Promise<Start> {
    const { terms, deadline, signal, joinTimeoutMs } = options;
    for (let host = 1; host < this.#numNodes; host++) {
      let theirs: Terms;
      try {
        theirs = await this.#get(`host/${host}`, { limitMs: deadline - performance.now(), signal });
      } catch (error) {
        if (!MtlError.isInstance(error) || error.code !== 'MTL_TIMEOUT') throw error;
        return { problem: this.#absence(terms, joinTimeoutMs) };
      }
      for (const [name, ours] of Object.entries(terms)) {
        const other = theirs[name as keyof Terms];
        if (other === ours) continue;
        const flag = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
        const message = `${flag} is ${ours} on host 0 and ${other} on host ${host}; it must be the same on all hosts`;
        return { problem: { code: 'MTL_FLAG_CONFLICT', message, exitCode: 2 } };
      }
    }
    return {};
  }

  #absence(terms: Terms, joinTimeoutMs: number): NonNullable<Start['problem']> {
    const waited = (joinTimeoutMs / 1000).toFixed(1);
    const absent = this.#absent(terms).join(', ');
    const message = `host 0 waited ${waited} s for ${absent} of ${this.#numNodes} hosts, which never came`;
    return { code: 'MTL_TIMEOUT', message, exitCode: 1 };
  }

  /** Returns the hosts that have not joined yet, and the ranks of each host. */
  #absent({ nprocPerNode }: Terms): string[] {
    return Array.from({ length: this.#numNodes }, (_, host) => host)
      .filter((host) => this.#store.find(`host/${host}`) === undefined)
      .map((host) => {
        const first = host * nprocPerNode;
        const ranks = nprocPerNode === 1 ? `rank ${first}` : `ranks ${first} to ${first + nprocPerNode - 1}`;
        return `host ${host} (${ranks})`;
      });
  }

  async #get<Value>(
    key: string,
    { limitMs = noLimitMs, signal }: { readonly limitMs?: number; readonly signal?: AbortSignal } = {},
  ): Promise<Value> {
    const wait = this.#store.getLater(key, Math.max(0, limitMs));
    this.#waits.add(wait);
    const forget = (): void => void this.#waits.delete(wait);
    wait.then(forget, forget);
    return decode(await (signal === undefined ? wait : Promise.race([wait, rejectOnAbort(signal)])));
  }
}

/** Prints to standard error for which hosts this host waits, after a few seconds and then every minute. */
class WaitNotices {
  readonly #host: number;
  readonly #absent: () => string;
  readonly #started = performance.now();
  #timer: NodeJS.Timeout;

  /** @param absent returns the hosts that have not joined, as a string; empty if all have joined */
  constructor(host: number, absent: () => string) {
    this.#host = host;
    this.#absent = absent;
    this.#timer = setTimeout(this.#say, waitNoticesMs.first);
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  readonly #say = (): void => {
    const seconds = ((performance.now() - this.#started) / 1000).toFixed(0);
    const absent = this.#absent();
    if (absent !== '') process.stderr.write(`host ${this.#host} has waited ${seconds} s for ${absent}\n`);
    this.#timer = setTimeout(this.#say, waitNoticesMs.next);
  };
}

interface FindOptions {
  readonly job: NativeJob;
  readonly address: string;
  readonly ports: readonly number[];
  readonly secret: string;
  readonly worldSize: number;
  readonly attempt: number;
  readonly member: string;
  readonly deadline: number;
  readonly signal: AbortSignal;
}

/**
 * Tries to reach host 0's store until the deadline. Each attempt is short, so that this process can handle
 * signals between attempts.
 */
async function findStore({ deadline, signal, ...options }: FindOptions): Promise<NativeStore> {
  let reason = 'it has not been looked for';
  const notices = new WaitNotices(options.job.rank, () => `host 0: ${reason}`);
  try {
    for (;;) {
      signal.throwIfAborted();
      const left = deadline - performance.now();
      try {
        return new NativeStore({ ...options, timeoutMs: Math.max(1, Math.min(left, lookMs)) });
      } catch (error) {
        if (!MtlError.isInstance(error) || error.code !== 'MTL_STORE_UNREACHABLE') throw error;
        if (left <= lookMs) throw missingHost(error);
        reason = error.message.split('the last try: ').at(-1)!;
      }
      await pause(10);
    }
  } finally {
    notices.end();
  }
}

function missingHost(cause: MtlError): CommunicationError {
  return new CommunicationError('MTL_TIMEOUT', `host 0 never came: ${cause.message}`, {
    remedy:
      'see the output of mtl run on host 0; --master-addr, --master-port and MTL_JOB_SECRET must be the same on all hosts, ' +
      'and --join-timeout at least as long as hosts take to start',
    cause,
  });
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}
