import { MtlError } from '@mtl/errors';
import type { Device } from '@mtl/kernels';
import { chooseEngine } from '../engines/choose-engine.js';
import type { JobEngineName } from '../engines/engine.js';
import { joinHost } from '../engines/local-engine.js';
import { readJobSecret } from '../environment/job-secret.js';
import { type ProcessEnvironment, readProcessEnvironment } from '../environment/process-environment.js';
import type { Variables } from '../environment/variable-reader.js';
import { addon } from '../native/addon.js';
import { NativeJob } from '../native/native-job.js';
import { NativeStore } from '../store/store.js';
import { everyInterfaceNotice, StoreServer } from '../store/store-server.js';
import { JoinedWorld } from './joined-world.js';
import { SharedSecretFile, sharedSecret, sharesSecretFile } from './shared-secret.js';
import { gatherRanks, rankZeroNeverCame, readJoinTimeout, waitNoticesMs } from './wait-for-ranks.js';

export interface JoinWorldOptions {
  /**
   * The environment variables, which contain the launcher's description of the process, and the secret.
   * Default: process.env.
   */
  readonly variables?: Variables;
  /** This process's position in the job. Default: the position in `variables`. */
  readonly environment?: ProcessEnvironment;
  /**
   * The engine of the groups. Default: shared memory on one host, Gloo across hosts. For device cuda, the
   * default is NCCL if every rank has the library and a separate GPU. Otherwise, it is shared memory or Gloo
   * with copies through host memory.
   */
  readonly engine?: JobEngineName;
  /**
   * The device of the tensors. Default: cpu. If the device is `cuda`, it must already be open, and groups
   * accept tensors of both devices.
   */
  readonly device?: Device;
  /**
   * Receives messages for the user: which engine was chosen for GPUs and why, and a notice if the store of
   * this process listens on every interface.
   */
  readonly onMessage?: (text: string) => void;
  /**
   * Receives a message that names the ranks that have not joined, after five seconds and then every minute.
   * If possible, only one rank reports. Default: prints a line to standard error.
   */
  readonly onWait?: (text: string) => void;
  /** How long an operation waits for the other ranks, at most, in milliseconds. Default: 600 000. */
  readonly timeoutMs?: number;
  /**
   * How long to wait for all ranks to join, in milliseconds. Default: the variable MTL_JOIN_TIMEOUT (in
   * seconds), or 300 000.
   */
  readonly joinTimeoutMs?: number;
  /**
   * How long this process may continue after the job has failed, in milliseconds. Then the watchdog ends the
   * process. Default: 10 000.
   */
  readonly abortGraceMs?: number;
  /**
   * How long a rank may be silent, at most, in milliseconds. It applies if this process runs the store (under
   * srun, mpirun, torchrun). Default: 15 000.
   */
  readonly heartbeatLimitMs?: number;
}

/**
 * Connects the processes of a job: reads the launcher's variables, finds the store, waits for all ranks, and
 * starts the engine. A single process skips these steps and gets a world with one rank.
 *
 * @throws the errors of `loadAddon`; ConfigurationError MTL_LAUNCH_ENVIRONMENT, MTL_JOB_SECRET, MTL_ENGINE,
 *   MTL_NCCL
 * @throws CommunicationError MTL_TIMEOUT, which names the ranks that did not join; MTL_STORE_UNREACHABLE,
 *   MTL_STORE_REFUSED
 */
export async function joinWorld(options: JoinWorldOptions = {}): Promise<JoinedWorld> {
  const { variables = process.env, environment = readProcessEnvironment(variables) } = options;
  if (environment.worldSize === 1) return new JoinedWorld(environment);
  addon(); // the same error for every engine where there is none
  const { timeoutMs = 600_000, abortGraceMs = 10_000, heartbeatLimitMs } = options;
  const joinTimeoutMs = options.joinTimeoutMs ?? readJoinTimeout(variables);
  const { engine: asked, device = 'cpu', onMessage = () => {}, onWait = writeLine } = options;
  const startEngine = chooseEngine({ asked, device, environment, joinTimeoutMs, onMessage });
  const deadline = performance.now() + joinTimeoutMs;
  const left = (): number => Math.max(0, deadline - performance.now());
  const shared = sharesSecretFile(environment, variables) ? new SharedSecretFile(variables) : undefined;
  const secret =
    shared === undefined
      ? readJobSecret(variables)
      : await sharedSecret({ file: shared, environment, timeoutMs: joinTimeoutMs, onWait });
  const server = serveStore({ environment, secret, heartbeatLimitMs, onMessage });
  const job = new NativeJob(environment.rank);
  let store: NativeStore | undefined;
  try {
    store = findStore({ environment, job, secret, server, timeoutMs: left(), onWait });
    const hosts = gatherRanks({
      environment,
      store,
      timeoutMs: left(),
      waitedMs: () => joinTimeoutMs - left(),
      onWait,
    });
    shared?.remove(); // all have it
    joinHost({
      job,
      ranks: hosts[environment.nodeRank]!,
      store,
      key: `host/${environment.nodeRank}`,
      timeoutMs: left(),
      graceMs: abortGraceMs,
    });
    const engine = await startEngine({ job, store, environment, hosts, timeoutMs, isStaged: false });
    return new JoinedWorld(environment, { job, store, server, engine, timeoutMs });
  } catch (error) {
    shared?.remove();
    // sends the error to the other ranks; otherwise they would wait for this rank
    job.abort(error as Error);
    store?.close();
    job.close();
    server?.close();
    throw error;
  }
}

function serveStore({
  environment,
  secret,
  heartbeatLimitMs,
  onMessage,
}: {
  environment: ProcessEnvironment;
  secret: string;
  heartbeatLimitMs: number | undefined;
  onMessage: (text: string) => void;
}): StoreServer | undefined {
  const { rank, storeHost, masterAddress, storePorts, worldSize, restartCount } = environment;
  if (rank !== 0 || storeHost !== 'rank 0') return undefined;
  const notice = everyInterfaceNotice({ address: masterAddress, source: 'MASTER_ADDR' });
  if (notice !== undefined) onMessage(`warning[MTL_STORE_ADDRESS]: ${notice}`);
  return new StoreServer({
    address: masterAddress,
    ports: storePorts,
    secret,
    worldSize,
    hostRank: rank,
    attempt: restartCount,
    ...(heartbeatLimitMs === undefined ? {} : { heartbeatLimitMs }),
  });
}

interface FindStoreOptions {
  readonly environment: ProcessEnvironment;
  readonly job: NativeJob;
  readonly secret: string;
  readonly server: StoreServer | undefined;
  readonly timeoutMs: number;
  readonly onWait: (text: string) => void;
}

/** Looks for the store of the job until the store is found or `timeoutMs` has passed. */
function findStore(options: FindStoreOptions): NativeStore {
  const { environment, job, secret, server, timeoutMs, onWait } = options;
  const { rank, storeHost, masterAddress: address, worldSize, restartCount: attempt } = environment;
  const ports = server === undefined ? environment.storePorts : [server.port];
  const started = performance.now();
  const waitedMs = (): number => performance.now() - started;
  for (let patienceMs: number = waitNoticesMs.first; ; patienceMs = waitNoticesMs.next) {
    const leftMs = Math.max(0, timeoutMs - waitedMs());
    // a launcher starts its store before this process, so the store must already exist
    const limitMs = storeHost === 'launcher' ? leftMs : Math.min(patienceMs, leftMs);
    try {
      return new NativeStore({ job, address, ports, secret, worldSize, attempt, timeoutMs: limitMs });
    } catch (error) {
      const isUnreachable = MtlError.isInstance(error) && error.code === 'MTL_STORE_UNREACHABLE';
      if (!isUnreachable || storeHost === 'launcher') throw error;
      const found = error.message.split('the last try: ').at(-1)!;
      if (limitMs === leftMs)
        throw rankZeroNeverCame({
          rank,
          waitedMs: waitedMs(),
          detail: `; the last try: ${found}`,
          alike: 'MTL_JOB_SECRET and MASTER_ADDR',
          cause: error,
        });
      const seconds = (waitedMs() / 1000).toFixed(0);
      if (speaks(environment))
        onWait(`rank ${rank} has waited ${seconds} s for rank 0, which holds the store of the job: ${found}`);
    }
  }
}

/**
 * Returns true if this rank is the one that reports a missing store. Without a store, the ranks cannot agree
 * on such a rank. If a launcher has started all ranks of a host, one report per host is enough. On the first
 * host, this is rank 1, because rank 0 runs the store.
 */
function speaks({ launcher, nodeRank, localRank }: ProcessEnvironment): boolean {
  return launcher === 'variables' || localRank === (nodeRank === 0 ? 1 : 0);
}

function writeLine(text: string): void {
  process.stderr.write(`${text}\n`);
}
