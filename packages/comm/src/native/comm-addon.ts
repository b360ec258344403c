import type { EngineName } from '../process-group.js';

/** A failure reported by native code. The fields after `code` are set only if they are known. */
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
 * The times of an operation, in nanoseconds of the host's monotonic clock, which all processes of the host
 * share.
 */
export interface TraceEntry {
  readonly group: string;
  readonly operation: string;
  /**
   * The peer of a message or the root of a broadcast, as a position in the group; -1 for other operations.
   */
  readonly peer: number;
  readonly sequence: number;
  readonly bytes: number;
  /** The time at which the program started the operation. */
  readonly postedNs: number;
  /** The time at which the execution began. */
  readonly startedNs: number;
  /** The time at which the result was ready. */
  readonly doneNs: number;
  /** The time at which the program began to wait for the result. */
  readonly waitedFromNs: number;
  /** The time at which the program received the result. */
  readonly waitDoneNs: number;
}

/** The latest operations for which the program has waited, oldest first. */
export interface TakenTrace extends ReadonlyArray<TraceEntry> {
  /** The number of older operations that were dropped since the last call. */
  readonly numDropped: number;
}

/** The version of the functions below. It increases with every incompatible change. */
export const expectedBindings = 2;

/** A group that the addon has opened. */
interface OpenedGroup {
  /** The handle of the group. */
  readonly group: number;
  readonly engine: EngineName;
}

interface GroupFields {
  readonly name: string;
  /** Global ranks of the members, ascending. */
  readonly ranks: readonly number[];
  readonly timeoutMs: number;
}

interface StoreFields {
  readonly address: string;
  readonly ports: readonly number[];
  readonly secret: string;
  readonly worldSize: number;
  readonly attempt: number;
  /** The word that error messages use for a joining process. */
  readonly member: string;
}

interface FailureFields {
  readonly code: string;
  readonly message: string;
  /** The rank that caused the failure. */
  readonly rank: number;
}

/**
 * An operation in the form that native code receives: enumeration values as in native/core/operation.h,
 * tensors as handles (0: no tensor).
 */
interface OperationFields {
  readonly operation: number;
  readonly reduction: number;
  /**
   * The peer of a message or the root of a broadcast, as a position in the group; -1 for other operations.
   */
  readonly peer: number;
  readonly input: number;
  readonly output: number;
  /** How many elements are sent to and received from each member, for an all-to-all with unequal parts. */
  readonly sent?: readonly number[];
  readonly received?: readonly number[];
}

interface KeyWait {
  readonly key: string;
  readonly timeoutMs: number;
}

/**
 * The functions of the native addon. Jobs, groups, operations in progress, meshes, store servers and store
 * clients are handles (numbers).
 */
export interface CommAddon {
  /** The version of the build (see `expectedBindings`); undefined before version 2. */
  readonly bindings?: number;
  useTensors(tensorApi: unknown): void;

  createJob(rank: number): number;
  closeJob(job: number): void;
  abortJob(job: number, failure: FailureFields): void;
  failureOfJob(job: number): NativeFailure | undefined;
  takeTrace(job: number): TakenTrace;

  createHostBoard(job: number, ranks: readonly number[]): string;
  openHostBoard(job: number, board: { readonly ranks: readonly number[]; readonly address: string }): void;
  joinHost(job: number, limits: { readonly timeoutMs: number; readonly graceMs: number }): void;
  createLocalGroup(
    job: number,
    group: GroupFields & { readonly bufferBytes: number; readonly isStaged: boolean },
  ): OpenedGroup;

  glooProblem(library: string): string | undefined;
  openGlooMesh(
    job: number,
    mesh: GroupFields & {
      /** The host index of each rank. */
      readonly hosts: readonly number[];
      readonly address: string;
      readonly library: string;
    },
  ): { readonly mesh: number; readonly addresses: Uint8Array };
  connectGlooGroup(
    job: number,
    group: {
      readonly mesh: number;
      /** The addresses of all members, by position. */
      readonly addresses: readonly Uint8Array[];
      readonly isStaged: boolean;
    },
  ): OpenedGroup;
  closeGlooMesh(mesh: number): void;

  /**
   * Opens NCCL and the driver's library.
   *
   * @throws MTL_NCCL_NOT_BUILT, MTL_NCCL_NOT_FOUND, MTL_NCCL_VERSION
   */
  ncclInformation(): { version: string; path: string; driverPath: string; builtAgainst: string };
  createNcclGroup(
    job: number,
    group: GroupFields & {
      readonly storeClient: number;
      /** The store's key for NCCL's unique id. */
      readonly key: string;
      readonly sharesGpu: boolean;
    },
  ): OpenedGroup;
  gpuOfProcess(): { index: number; uuid: string };

  /** Starts an operation and returns its handle, which is valid within the group. */
  startOperation(group: number, operation: OperationFields): number;
  waitForOperation(group: number, ticket: number): void;
  isOperationDone(group: number, ticket: number): boolean;
  statisticsOfGroup(group: number): number[];
  closeGroup(group: number): void;

  createStoreServer(
    server: StoreFields & { readonly hostRank: number; readonly heartbeatLimitMs: number },
  ): number;
  portOfStoreServer(server: number): number;
  failureOfStoreServer(server: number): NativeFailure | undefined;
  abortStoreServer(server: number, failure: FailureFields): void;
  closeStoreServer(server: number, timeoutMs: number): void;
  openStoreClient(job: number, client: StoreFields & { readonly timeoutMs: number }): number;
  setInStore(client: number, entry: { readonly key: string; readonly value: Uint8Array }): void;
  getFromStore(client: number, wait: KeyWait): Uint8Array;
  awaitInStore(client: number, wait: KeyWait): Promise<Uint8Array>;
  findInStore(client: number, key: string): Uint8Array | undefined;
  addInStore(client: number, change: { readonly key: string; readonly delta: number }): number;
  tellStore(client: number, timeoutMs: number): void;
  closeStoreClient(client: number): void;
  endWithParent(parent: number): void;
}
