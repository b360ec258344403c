import { MtlError } from '@mtl/errors';
import { AwaitableWork } from '../awaitable-work.js';
import {
  CheckedGroup,
  type CheckedGroupOptions,
  type CheckedOperation,
  reductions,
} from '../checked-group.js';
import type { DeviceWaits } from '../device-waits.js';
import {
  type CommunicationOperation,
  communicationOperations,
  type EngineName,
  type OperationCount,
  type Work,
} from '../process-group.js';
import { addon, callNative } from './addon.js';

interface NativeGroupOptions extends CheckedGroupOptions {
  readonly engine: EngineName;
  /** The handle of the native group. */
  readonly handle: number;
  /** Measures how long the device waits. Defined only if operations block the device and not the host. */
  readonly deviceWaits?: DeviceWaits;
}

const noTensor = 0;
const noPeer = -1;

/** A process group whose operations are executed by native code, for all native engines. */
export class NativeGroup extends CheckedGroup {
  readonly engine: EngineName;
  readonly #handle: number;
  readonly #deviceWaits: DeviceWaits | undefined;
  #closedStatistics: ReturnType<CheckedGroup['statistics']> | undefined;

  constructor({ engine, handle, deviceWaits, ...options }: NativeGroupOptions) {
    super(options);
    this.engine = engine;
    this.#handle = handle;
    this.#deviceWaits = deviceWaits;
  }

  statistics(): Readonly<Record<CommunicationOperation, OperationCount>> {
    if (this.#closedStatistics !== undefined) return this.#closedStatistics;
    const numbers = callNative(() => addon().statisticsOfGroup(this.#handle));
    return Object.fromEntries(
      communicationOperations.map((operation, index) => {
        const [calls, sentBytes, waitedNs] = numbers.slice(3 * index, 3 * index + 3) as [
          number,
          number,
          number,
        ];
        return [operation, { calls, sentBytes, waitedSeconds: waitedNs / 1e9 }];
      }),
    ) as Record<CommunicationOperation, OperationCount>;
  }

  /**
   * Closes the group. Operations in progress fail with MTL_CLOSED. Members that wait for this member are
   * notified that it has left.
   */
  close(): void {
    if (this.#closedStatistics !== undefined) return;
    this.#closedStatistics = this.statistics();
    callNative(() => addon().closeGroup(this.#handle));
  }

  protected start(call: CheckedOperation): Work {
    const { operation, input, output, reduction = 'sum', peer = noPeer, parts } = call;
    const ticket = callNative(() =>
      addon().startOperation(this.#handle, {
        operation: communicationOperations.indexOf(operation),
        reduction: reductions.indexOf(reduction),
        peer,
        input: input?.handle ?? noTensor,
        output: output?.handle ?? noTensor,
        ...parts,
      }),
    );
    return new NativeWork(this.#handle, ticket, this.#deviceWaits);
  }
}

class NativeWork extends AwaitableWork {
  readonly #group: number;
  readonly #ticket: number;
  readonly #deviceWaits: DeviceWaits | undefined;
  #isDone = false;
  #error: unknown;

  constructor(group: number, ticket: number, deviceWaits: DeviceWaits | undefined) {
    super();
    this.#group = group;
    this.#ticket = ticket;
    this.#deviceWaits = deviceWaits;
  }

  get isDone(): boolean {
    return this.#isDone || callNative(() => addon().isOperationDone(this.#group, this.#ticket));
  }

  wait(): void {
    if (!this.#isDone) {
      try {
        const wait = (): void => callNative(() => addon().waitForOperation(this.#group, this.#ticket));
        if (this.#deviceWaits === undefined) wait();
        else this.#deviceWaits.wait(wait);
      } catch (error) {
        // a wait while a graph is being recorded is rejected, but the operation stays in progress
        if (MtlError.isInstance(error) && error.code === 'MTL_CAPTURE') throw error;
        this.#error = error;
      }
      this.#isDone = true;
    }
    if (this.#error !== undefined) throw this.#error;
  }
}
