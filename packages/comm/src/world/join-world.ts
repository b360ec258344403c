import { CommunicationError, MtlError, UsageError } from '@mtl/errors';
import type { Device } from '@mtl/kernels';
import type { ProcessEnvironment, Variables } from '../environment/process-environment.js';
import { readJobSecret } from '../environment/read-job-secret.js';
import { readJoinTimeout } from '../environment/read-join-timeout.js';
import { readProcessEnvironment } from '../environment/read-process-environment.js';
import { joinHost } from '../local/join-host.js';
import { NativeJob } from '../native/native-job.js';
import { everyInterfaceNotice } from '../store/every-interface-notice.js';
import { NativeStore } from '../store/native-store.js';
import { StoreServer } from '../store/store-server.js';
import { chooseEngine } from './choose-engine.js';
import type { JobEngineName } from './job-engine-name.js';
import { JoinedWorld } from './joined-world.js';

export interface JoinWorldOptions {
  /** Where the launcher's variables and the secret are read. Default: process.env. */
  readonly variables?: Variables;
  /** This process's place, instead of what the variables say. */
  readonly environment?: ProcessEnvironment;
  /**
   * Default: shared memory on one host, Gloo between hosts; for device cuda NCCL where every rank has a GPU
   * of its own and the library, else one of these two, through the host's memory.
   */
  readonly engine?: JobEngineName;
  /** Where tensors live; for `cuda`, which must be open, groups take tensors of both. Default cpu. */
  readonly device?: Device;
  /**
   * Gets which engine serves GPUs, and why; and that the store of this process listens on every interface.
   */
  readonly onMessage?: (text: string) => void;
  /** How long an operation waits for the other ranks. Default 600 s. */
  readonly timeoutMs?: number;
  /**
   * How long to wait for all ranks to come. Default: MTL_JOIN_TIMEOUT (seconds) of the variables, else 300 s.
   */
  readonly joinTimeoutMs?: number;
  /** How long this process may go on after the job has failed before its watchdog ends it. Default 10 s. */
  readonly abortGraceMs?: number;
  /**
   * How long a rank may be silent, where this process runs the store (under srun, mpirun, torchrun).
   * Default 15 s.
   */
  readonly heartbeatLimitMs?: number;
}

/**
 * Brings the processes of a job together: reads the launcher's variables, finds the store, waits for all
 * ranks, and starts the engine. A process alone needs none of that and gets a world of one.
 *
 * @throws ConfigurationError MTL_LAUNCH_ENVIRONMENT, MTL_JOB_SECRET, MTL_ENGINE, MTL_NCCL
 * @throws CommunicationError MTL_TIMEOUT, naming the ranks that never came; MTL_STORE_UNREACHABLE,
 *   MTL_STORE_REFUSED
 */
export async function joinWorld(options: JoinWorldOptions = {}): Promise<JoinedWorld> {
  const { variables = process.env, environment = readProcessEnvironment(variables) } = options;
  if (environment.worldSize === 1) return new JoinedWorld(environment);
  const { timeoutMs = 600_000, abortGraceMs = 10_000, heartbeatLimitMs } = options;
  const joinTimeoutMs = options.joinTimeoutMs ?? readJoinTimeout(variables);
  const { engine: asked, device = 'cpu', onMessage = () => {} } = options;
  const startEngine = chooseEngine({ asked, device, environment, joinTimeoutMs, onMessage });
  const secret = readJobSecret(variables);
  const deadline = performance.now() + joinTimeoutMs;
  const left = (): number => Math.max(0, deadline - performance.now());
  const server = serveStore({ environment, secret, heartbeatLimitMs, onMessage });
  const job = new NativeJob(environment.rank);
  let store: NativeStore | undefined;
  try {
    store = findStore({ environment, job, secret, server, timeoutMs: joinTimeoutMs });
    const hosts = gatherRanks({
      environment,
      store,
      timeoutMs: left(),
      waitedMs: () => joinTimeoutMs - left(),
    });
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
    // the others learn why instead of waiting for this rank
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
    ...{
      address: masterAddress,
      ports: storePorts,
      secret,
      worldSize,
      hostRank: rank,
      attempt: restartCount,
    },
    ...(heartbeatLimitMs === undefined ? {} : { heartbeatLimitMs }),
  });
}

function findStore({
  environment,
  job,
  secret,
  server,
  timeoutMs,
}: {
  environment: ProcessEnvironment;
  job: NativeJob;
  secret: string;
  server: StoreServer | undefined;
  timeoutMs: number;
}): NativeStore {
  const { rank, storeHost, masterAddress: address, worldSize, restartCount: attempt } = environment;
  const ports = server === undefined ? environment.storePorts : [server.port];
  try {
    return new NativeStore({ job, address, ports, secret, worldSize, attempt, timeoutMs });
  } catch (error) {
    const isUnreachable = MtlError.isInstance(error) && error.code === 'MTL_STORE_UNREACHABLE';
    if (!isUnreachable || storeHost === 'launcher') throw error;
    throw new CommunicationError(
      'MTL_TIMEOUT',
      `rank 0, which holds the store of the job, never came: ${error.message}`,
      {
        remedy:
          'see what rank 0 says; MTL_JOB_SECRET and MASTER_ADDR must be the same for all ranks; ' +
          'MTL_JOIN_TIMEOUT=SECONDS waits longer',
        details: { rank: 0, by: rank, waitedMs: timeoutMs },
        cause: error,
      },
    );
  }
}

/** Says that this rank is there, waits for all others, and gives the ranks of every host. */
function gatherRanks({
  environment,
  store,
  timeoutMs,
  waitedMs,
}: {
  environment: ProcessEnvironment;
  store: NativeStore;
  timeoutMs: number;
  waitedMs: () => number;
}): number[][] {
  const { rank, worldSize, nodeRank, numNodes, localWorldSize } = environment;
  const keyOf = (each: number): string => `rank/${each}`;
  store.set(keyOf(rank), new TextEncoder().encode(String(nodeRank)));
  const ranks = Array.from({ length: worldSize }, (_, each) => each);
  try {
    store.wait(ranks.map(keyOf), timeoutMs);
  } catch (error) {
    if (!MtlError.isInstance(error) || error.code !== 'MTL_TIMEOUT') throw error;
    const missing = ranks.filter((each) => store.find(keyOf(each)) === undefined);
    if (missing.length === 0) throw error;
    const names = `rank${missing.length === 1 ? '' : 's'} ${missing.join(', ')}`;
    throw new CommunicationError(
      'MTL_TIMEOUT',
      `rank ${rank} waited ${(waitedMs() / 1000).toFixed(1)} s for ${names} of ${worldSize}, which never came`,
      {
        remedy:
          'see what the missing ranks say, and whether their hosts reach the address of the store; ' +
          'MTL_JOIN_TIMEOUT=SECONDS waits longer',
        details: {
          rank: missing[0],
          ranks: missing,
          group: 'world',
          operation: 'join',
          waitedMs: waitedMs(),
        },
      },
    );
  }
  const hosts: number[][] = Array.from({ length: numNodes }, () => []);
  for (const each of ranks) {
    const host = hosts[Number(new TextDecoder().decode(store.find(keyOf(each))))];
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
