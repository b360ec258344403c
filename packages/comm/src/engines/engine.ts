import type { DeviceWaits } from '../device-waits.js';
import type { ProcessEnvironment } from '../environment/process-environment.js';
import type { NativeJob } from '../native/native-job.js';
import type { EngineName, ProcessGroup } from '../process-group.js';
import type { NativeStore } from '../store/store.js';
import type { GroupOptions } from '../world.js';

/**
 * The state of a job when its engine starts. All ranks have joined, and the ranks of a host share a board and
 * monitor each other.
 */
export interface EngineContext {
  readonly job: NativeJob;
  readonly store: NativeStore;
  readonly environment: ProcessEnvironment;
  /** The global ranks of each host, ascending. Hosts are in the order of node ranks. */
  readonly hosts: readonly (readonly number[])[];
  /** How long an operation waits for the other ranks, at most, in milliseconds. */
  readonly timeoutMs: number;
  /** True if groups also accept tensors on device cuda, by copying them through host memory. */
  readonly isStaged: boolean;
}

/** A communication engine, which creates the groups of a world. */
export interface Engine {
  readonly name: EngineName;
  /**
   * Measures how long the device waits for communication. Only engines whose operations block the device, and
   * not the host, have this property.
   */
  readonly deviceWaits?: DeviceWaits;
  /** Creates a group of two or more ranks, including this rank. All members must call it. */
  createGroup(options: GroupOptions): ProcessGroup;
  /** Closes the engine. The job closes the groups that the engine does not close itself. */
  close(): void;
}

/** Starts an engine. All ranks of the job call it. */
export type EngineFactory = (context: EngineContext) => Engine | Promise<Engine>;

/** Engines that the ranks of a job can choose. */
export type JobEngineName = 'local' | 'gloo' | 'nccl';
