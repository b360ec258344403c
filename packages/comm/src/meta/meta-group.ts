import { CommunicationError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';
import {
  checkExchange,
  checkMember,
  checkParts,
  checkPeer,
  checkReduction,
  checkTensor,
} from '../check-operation.js';
import type {
  CommunicationOperation,
  OperationCount,
  ProcessGroup,
  ReduceOperation,
  Work,
} from '../process-group.js';
import { sentBytes } from './sent-bytes.js';

/** An operation that a rank started. */
export interface MetaOperation {
  /** The name of its group. */
  readonly group: string;
  readonly operation: CommunicationOperation;
  /** Bytes of the tensor that this rank brings, or receives. */
  readonly bytes: number;
  /** Bytes that this rank sends to others, as rings do. */
  readonly sentBytes: number;
  /** The other rank of a message: a position in the group. */
  readonly peer?: number;
}

export interface MetaGroupOptions {
  readonly name: string;
  readonly ranks: readonly number[];
  /** Global rank of this process. */
  readonly worldRank: number;
  /** Told of every operation, in order. */
  readonly onOperation?: ((operation: MetaOperation) => void) | undefined;
  /** Told where the rank waits for an operation that `onOperation` was told of. */
  readonly onWait?: ((operation: MetaOperation) => void) | undefined;
}

const operations: readonly CommunicationOperation[] = [
  ...(['allReduce', 'allGather', 'reduceScatter', 'broadcast'] as const),
  ...(['allToAll', 'send', 'receive', 'barrier'] as const),
];

/**
 * A group of which only this rank exists. Operations check what every group checks, are counted, and are done
 * at once: tensors on device `meta` have no values to send. Values of tensors in host memory, with which
 * ranks agree on something, are combined as if all ranks had said what this one says.
 */
export class MetaGroup implements ProcessGroup {
  readonly engine = 'meta';
  readonly name: string;
  readonly ranks: readonly number[];
  readonly rank: number;
  readonly size: number;
  readonly #onOperation: MetaGroupOptions['onOperation'];
  readonly #onWait: MetaGroupOptions['onWait'];
  readonly #counts = new Map<CommunicationOperation, { calls: number; sentBytes: number }>();

  constructor({ name, ranks, worldRank, onOperation, onWait }: MetaGroupOptions) {
    this.name = name;
    this.ranks = ranks;
    this.rank = ranks.indexOf(worldRank);
    this.size = ranks.length;
    this.#onOperation = onOperation;
    this.#onWait = onWait;
  }

  allReduce(tensor: Tensor, { operation = 'sum' }: { readonly operation?: ReduceOperation } = {}): Work {
    checkTensor('allReduce', tensor);
    checkReduction(operation);
    const work = this.#count('allReduce', tensor.bytes);
    if (hasValues(tensor) && operation === 'sum') write(tensor, timesSize(tensor.toArray(), this.size));
    return work;
  }

  allGather({ output, input }: { readonly output: Tensor; readonly input: Tensor }): Work {
    checkParts('allGather', { whole: output, part: input, group: this });
    const work = this.#count('allGather', input.bytes);
    if (hasValues(output)) {
      const own = input.toArray();
      write(
        output,
        this.ranks.flatMap(() => own),
      );
    }
    return work;
  }

  reduceScatter(call: {
    readonly output: Tensor;
    readonly input: Tensor;
    readonly operation?: ReduceOperation;
  }): Work {
    const { output, input, operation = 'sum' } = call;
    checkParts('reduceScatter', { whole: input, part: output, group: this });
    checkReduction(operation);
    const work = this.#count('reduceScatter', input.bytes);
    if (hasValues(output)) {
      const own = this.#ownPart(input, output.size);
      write(output, operation === 'sum' ? timesSize(own, this.size) : own);
    }
    return work;
  }

  broadcast(tensor: Tensor, { root }: { readonly root: number }): Work {
    checkTensor('broadcast', tensor);
    checkMember(root, this);
    return this.#count('broadcast', tensor.bytes, { root });
  }

  allToAll({ output, input }: { readonly output: Tensor; readonly input: Tensor }): Work {
    checkExchange({ input, output, group: this });
    const work = this.#count('allToAll', input.bytes);
    if (hasValues(output)) {
      const own = this.#ownPart(input, input.size / this.size);
      write(
        output,
        this.ranks.flatMap(() => own),
      );
    }
    return work;
  }

  send(tensor: Tensor, { to }: { readonly to: number }): Work {
    checkTensor('send', tensor);
    checkPeer(to, this);
    return this.#count('send', tensor.bytes, { peer: to });
  }

  /**
   * @throws CommunicationError `MTL_META` for a tensor in host memory: what another rank sends is not known
   */
  receive(tensor: Tensor, { from }: { readonly from: number }): Work {
    checkTensor('receive', tensor);
    checkPeer(from, this);
    if (hasValues(tensor)) {
      throw new CommunicationError(
        'MTL_META',
        `group ${this.name}: values that rank ${this.ranks[from]} would send`,
        {
          expected: 'a tensor on device meta, which has none: only this rank exists',
          details: { rank: this.ranks[from], group: this.name, operation: 'receive' },
        },
      );
    }
    return this.#count('receive', tensor.bytes, { peer: from });
  }

  barrier(): Work {
    return this.#count('barrier', 0);
  }

  statistics(): Readonly<Record<CommunicationOperation, OperationCount>> {
    const entries = operations.map((operation) => {
      const { calls = 0, sentBytes: sent = 0 } = this.#counts.get(operation) ?? {};
      return [operation, { calls, sentBytes: sent, waitedSeconds: 0 }] as const;
    });
    return Object.fromEntries(entries) as Record<CommunicationOperation, OperationCount>;
  }

  close(): void {}

  #count(
    operation: CommunicationOperation,
    bytes: number,
    { root, peer }: { readonly root?: number; readonly peer?: number } = {},
  ): Work {
    const { rank, size } = this;
    const sent = sentBytes(operation, { inputBytes: bytes, size, rank, root });
    const count = this.#counts.get(operation) ?? { calls: 0, sentBytes: 0 };
    count.calls += 1;
    count.sentBytes += sent;
    this.#counts.set(operation, count);
    const started: MetaOperation = {
      group: this.name,
      operation,
      bytes,
      sentBytes: sent,
      ...(peer === undefined ? {} : { peer }),
    };
    this.#onOperation?.(started);
    return { wait: () => this.#onWait?.(started), isDone: true };
  }

  #ownPart(tensor: Tensor, size: number): number[] {
    return tensor.toArray().slice(this.rank * size, (this.rank + 1) * size);
  }
}

const hasValues = (tensor: Tensor): boolean => tensor.device !== 'meta';

const timesSize = (values: readonly number[], size: number): number[] => values.map((value) => value * size);

function write(tensor: Tensor, values: readonly number[]): void {
  const { shape, dtype } = tensor;
  using converted = Tensor.from(values, { shape, dtype });
  tensor.write(converted.read());
}
