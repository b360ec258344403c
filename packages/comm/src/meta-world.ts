import { CommunicationError, UsageError } from '@mtl/errors';
import { bytesPerElement, hasValues, Tensor } from '@mtl/kernels';
import { refuseInGraph } from '@mtl/kernels/internal';
import { CallbackWork } from './awaitable-work.js';
import {
  CheckedGroup,
  type CheckedGroupOptions,
  type CheckedOperation,
  checkRanks,
} from './checked-group.js';
import {
  type CommunicationOperation,
  communicationOperations,
  type OperationCount,
  type ProcessGroup,
  type Work,
} from './process-group.js';
import { SingleProcessGroup } from './single-process-group.js';
import type { GroupOptions, World } from './world.js';

interface SentBytesOptions {
  /** The size of the operation's input on this rank. */
  readonly inputBytes: number;
  readonly size: number;
  readonly rank: number;
  /** The root of a broadcast. */
  readonly root?: number | undefined;
}

/**
 * Returns the number of bytes that a rank sends if collectives use the ring algorithm, as in NCCL. An
 * all-reduce sends `2 * (n - 1) / n` times the bytes of the tensor. An all-gather or a reduce-scatter sends
 * half this amount.
 */
export function sentBytes(operation: CommunicationOperation, options: SentBytesOptions): number {
  const { inputBytes, size, rank, root } = options;
  const others = size - 1;
  switch (operation) {
    case 'allReduce':
      return (2 * inputBytes * others) / size;
    case 'allGather':
      return inputBytes * others;
    case 'reduceScatter':
    case 'allToAll': // of equal parts
      return (inputBytes * others) / size;
    case 'broadcast':
      // data is sent along the ring from the root, so the last rank sends nothing
      return (rank + 1) % size === root ? 0 : inputBytes;
    case 'send':
      return inputBytes;
    case 'receive':
    case 'barrier':
      return 0;
  }
}

/** An operation that the rank has started. */
export interface MetaOperation {
  /** The name of the operation's group. */
  readonly group: string;
  readonly operation: CommunicationOperation;
  /** The size of the tensor that this rank contributes or receives. */
  readonly bytes: number;
  /** The number of bytes that this rank would send to other ranks in the ring algorithm. */
  readonly sentBytes: number;
  /** True if the operation's tensors are on a device, not in host memory. */
  readonly isOnDevice: boolean;
  /** The peer of a message, as a position in the group. */
  readonly peer?: number;
}

interface MetaGroupOptions extends CheckedGroupOptions {
  /**
   * Called for every operation in order, after its start. Values in host memory are then already combined.
   */
  readonly onOperation?: ((operation: MetaOperation) => void) | undefined;
  /** Called when the rank waits for an operation that was passed to `onOperation`. */
  readonly onWait?: ((operation: MetaOperation) => void) | undefined;
}

/**
 * A group in which only this rank exists. Operations are checked as in every group, counted, and finished
 * immediately, because tensors on device `meta` have no values to send. Tensors in host memory, with which
 * ranks agree on values, are combined as if all ranks had the values of this rank. A message from another
 * rank has unknown contents, so receiving it is an error (CommunicationError `MTL_META`).
 */
class MetaGroup extends CheckedGroup {
  readonly engine = 'meta';
  readonly #onOperation: MetaGroupOptions['onOperation'];
  readonly #onWait: MetaGroupOptions['onWait'];
  readonly #counts = new Map<CommunicationOperation, { calls: number; sentBytes: number }>();

  constructor({ onOperation, onWait, ...options }: MetaGroupOptions) {
    super(options);
    this.#onOperation = onOperation;
    this.#onWait = onWait;
  }

  statistics(): Readonly<Record<CommunicationOperation, OperationCount>> {
    const entries = communicationOperations.map((operation) => {
      const { calls = 0, sentBytes: sent = 0 } = this.#counts.get(operation) ?? {};
      return [operation, { calls, sentBytes: sent, waitedSeconds: 0 }] as const;
    });
    return Object.fromEntries(entries) as Record<CommunicationOperation, OperationCount>;
  }

  close(): void {}

  protected start(call: CheckedOperation): Work {
    const { output } = call;
    refuseInGraph('meta-cuda', 'communication between ranks');
    const isOfValues = output !== undefined && hasValues(output.device);
    if (isOfValues && call.operation === 'receive') throw this.#unknownMessage(call.peer!, 'receive');
    if (isOfValues) this.#combine(call);
    const started = this.#count(call);
    const wait = (): void => {
      refuseInGraph('meta-cuda', 'waiting for other ranks');
      this.#onWait?.(started);
    };
    return new CallbackWork({ wait });
  }

  #unknownMessage(from: number, operation: CommunicationOperation): CommunicationError {
    const rank = this.ranks[from];
    return new CommunicationError('MTL_META', `group ${this.name}: values that rank ${rank} would send`, {
      expected: 'a tensor on device meta, which has none: only this rank exists',
      details: { rank, group: this.name, operation },
    });
  }

  #count({ operation, input, output, peer, parts }: CheckedOperation): MetaOperation {
    const { rank, size } = this;
    const tensor = input ?? output;
    const bytes = tensor?.bytes ?? 0;
    const root = operation === 'broadcast' ? peer : undefined;
    const sent =
      parts === undefined
        ? sentBytes(operation, { inputBytes: bytes, size, rank, root })
        : bytes - parts.sent[rank]! * bytesPerElement(input!.dtype);
    const count = this.#counts.get(operation) ?? { calls: 0, sentBytes: 0 };
    count.calls += 1;
    count.sentBytes += sent;
    this.#counts.set(operation, count);
    const started: MetaOperation = {
      group: this.name,
      operation,
      bytes,
      sentBytes: sent,
      isOnDevice: tensor !== undefined && !hasValues(tensor.device),
      ...(root !== undefined || peer === undefined ? {} : { peer }),
    };
    this.#onOperation?.(started);
    return started;
  }

  /** Computes the output as if all ranks had this rank's input. */
  #combine({ operation, input, output, reduction, parts }: CheckedOperation): void {
    if (input === undefined || output === undefined || operation === 'broadcast') return;
    const all = input.toArray();
    if (parts !== undefined) {
      const length = parts.sent[this.rank]!;
      const from = parts.received.findIndex((received) => received !== length);
      if (from >= 0) throw this.#unknownMessage(from, operation);
      const start = parts.sent.slice(0, this.rank).reduce((sum, each) => sum + each, 0);
      const own = all.slice(start, start + length);
      const received = this.ranks.flatMap(() => own);
      write(output, received);
      return;
    }
    const part = output.size / (operation === 'allToAll' ? this.size : 1);
    const isWhole = operation === 'allReduce' || operation === 'allGather';
    const own = isWhole ? all : all.slice(this.rank * part, (this.rank + 1) * part);
    const values = reduction === 'sum' ? own.map((value) => value * this.size) : own;
    const isRepeated = operation === 'allGather' || operation === 'allToAll';
    write(output, isRepeated ? this.ranks.flatMap(() => values) : values);
  }
}

function write(tensor: Tensor, values: readonly number[]): void {
  const { shape, dtype } = tensor;
  using converted = Tensor.from(values, { shape, dtype });
  tensor.write(converted.read());
}

export interface MetaWorldOptions extends Pick<MetaGroupOptions, 'onOperation' | 'onWait'> {
  readonly rank: number;
  readonly size: number;
}

/**
 * A rank of a world of any size, for dry runs. The other ranks do not exist. The world's engine is `meta`
 * (see `MetaGroup`), and its tensors are on device `meta`.
 */
export class MetaWorld implements World {
  readonly rank: number;
  readonly size: number;
  readonly group: ProcessGroup;
  readonly #listeners: Pick<MetaGroupOptions, 'onOperation' | 'onWait'>;

  /** @throws UsageError `MTL_GROUP` for a rank that is not below `size` */
  constructor({ rank, size, ...listeners }: MetaWorldOptions) {
    if (!(Number.isSafeInteger(size) && Number.isSafeInteger(rank) && rank >= 0 && rank < size)) {
      throw new UsageError('MTL_GROUP', `rank ${rank} of a world of ${size} processes`, {
        expected: 'a rank from 0 to the number of processes minus 1',
      });
    }
    this.rank = rank;
    this.size = size;
    this.#listeners = listeners;
    this.group = this.createGroup({ name: 'world', ranks: Array.from({ length: size }, (_, each) => each) });
  }

  createGroup({ name, ranks }: GroupOptions): ProcessGroup {
    checkRanks({ name, ranks }, this.rank);
    if (ranks.length === 1) return new SingleProcessGroup(name, this.rank);
    return new MetaGroup({ name, ranks, worldRank: this.rank, ...this.#listeners });
  }

  /** Does nothing, because the other ranks do not exist. */
  abort(): void {}

  close(): void {}

  [Symbol.dispose](): void {
    this.close();
  }
}
