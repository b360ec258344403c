import type { EngineName } from '../process-group.js';

/** A failure as native code describes it; what follows `code` is there as far as it is known. */
export interface NativeFailure {
  readonly message: string;
  readonly code: string;
  readonly rank?: number;
  readonly group?: string;
  readonly operation?: string;
  readonly sequence?: string;
  readonly waitedMs?: number;
}

/**
 * One operation as it happened; times in nanoseconds of the host's monotonic clock, equal for all its
 * processes.
 */
export interface TraceEntry {
  readonly group: string;
  readonly operation: string;
  /** Position in the group of a message's other end or a broadcast's root, else -1. */
  readonly peer: number;
  readonly sequence: number;
  readonly bytes: number;
  /** The program started the operation. */
  readonly postedNs: number;
  /** Its execution began. */
  readonly startedNs: number;
  /** Its result was in place. */
  readonly doneNs: number;
  /** The program asked for the result. */
  readonly waitedFromNs: number;
  /** And had it. */
  readonly waitDoneNs: number;
}

/** The latest operations, oldest first. */
export interface TakenTrace extends ReadonlyArray<TraceEntry> {
  /** How many older ones, since the last time, are no longer known. */
  readonly numDropped: number;
}

/** The functions of the native addon. Jobs, groups and operations under way are numbers. */
export interface CommAddon {
  useTensors(tensorApi: unknown): void;

  createJob(rank: number): number;
  closeJob(job: number): void;
  abortJob(job: number, code: string, message: string, rank: number): void;
  failureOfJob(job: number): NativeFailure | undefined;
  takeTrace(job: number): TakenTrace;

  createHostBoard(job: number, ranks: readonly number[]): string;
  openHostBoard(job: number, ranks: readonly number[], address: string): string;
  joinHost(job: number, timeoutMs: number, graceMs: number): void;
  createLocalGroup(
    job: number,
    name: string,
    ranks: readonly number[],
    timeoutMs: number,
    bufferBytes: number,
    isStaged: boolean,
  ): { group: number; engine: EngineName };

  glooProblem(library: string): string | undefined;
  openGlooMesh(
    job: number,
    name: string,
    ranks: readonly number[],
    hosts: readonly number[],
    timeoutMs: number,
    address: string,
    library: string,
  ): { mesh: number; addresses: Uint8Array };
  connectGlooGroup(
    job: number,
    mesh: number,
    addresses: readonly Uint8Array[],
    isStaged: boolean,
  ): { group: number; engine: EngineName };
  closeGlooMesh(mesh: number): void;

  /** Opens the libraries. @throws MTL_NCCL_NOT_BUILT, MTL_NCCL_NOT_FOUND, MTL_NCCL_VERSION */
  ncclInformation(): { version: string; path: string; driverPath: string; builtAgainst: string };
  createNcclGroup(
    job: number,
    storeClient: number,
    name: string,
    ranks: readonly number[],
    key: string,
    timeoutMs: number,
    sharesGpu: boolean,
  ): { group: number; engine: EngineName };
  gpuOfProcess(): { index: number; uuid: string };

  startOperation(
    group: number,
    operation: number,
    reduction: number,
    peer: number,
    input: number,
    output: number,
  ): number;
  waitForOperation(group: number, ticket: number): void;
  isOperationDone(group: number, ticket: number): boolean;
  statisticsOfGroup(group: number): number[];
  closeGroup(group: number): void;

  createStoreServer(
    address: string,
    ports: readonly number[],
    secret: string,
    worldSize: number,
    attempt: number,
    hostRank: number,
    heartbeatLimitMs: number,
    member: string,
  ): number;
  portOfStoreServer(server: number): number;
  failureOfStoreServer(server: number): NativeFailure | undefined;
  abortStoreServer(server: number, rank: number, code: string, message: string): void;
  closeStoreServer(server: number, timeoutMs: number): void;
  openStoreClient(
    job: number,
    address: string,
    ports: readonly number[],
    secret: string,
    worldSize: number,
    attempt: number,
    timeoutMs: number,
    member: string,
  ): number;
  setInStore(client: number, key: string, value: Uint8Array): void;
  getFromStore(client: number, key: string, timeoutMs: number): Uint8Array;
  awaitInStore(client: number, key: string, timeoutMs: number): Promise<Uint8Array>;
  findInStore(client: number, key: string): Uint8Array | undefined;
  addInStore(client: number, key: string, delta: number): number;
  tellStore(client: number, timeoutMs: number): void;
  closeStoreClient(client: number): void;
  endWithParent(parent: number): void;
}
