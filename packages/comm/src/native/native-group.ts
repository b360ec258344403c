import { MtlError } from '@mtl/errors';
import type { Tensor } from '@mtl/kernels';
import {
  checkExchange,
  checkMember,
  checkParts,
  checkPeer,
  checkReduction,
  checkTensor,
  reductions,
} from '../check-operation.js';
import type {
  CommunicationOperation,
  EngineName,
  OperationCount,
  ProcessGroup,
  ReduceOperation,
  Work,
} from '../process-group.js';
import type { GroupOptions } from '../world.js';
import { addon, callNative } from './addon.js';

export interface NativeGroupOptions extends GroupOptions {
  readonly engine: EngineName;
  /** Global rank of this process. */
  readonly worldRank: number;
  /** Of the native group. */
  readonly handle: number;
}

// in the order of their native numbers (native/core/operation.h)
const operations: readonly CommunicationOperation[] = [
  ...(['allReduce', 'allGather', 'reduceScatter', 'broadcast'] as const),
  ...(['allToAll', 'send', 'receive', 'barrier'] as const),
];
const noTensor = 0;
const noPeer = -1;

/** What an operation is made of, as native code takes it. */
interface Start {
  readonly input?: Tensor;
  readonly output?: Tensor;
  readonly reduction?: ReduceOperation;
  readonly peer?: number;
}

/** A process group whose operations native code carries out, whatever its engine. */
export class NativeGroup implements ProcessGroup {
  readonly name: string;
  readonly engine: EngineName;
  readonly ranks: readonly number[];
  readonly rank: number;
  readonly size: number;
  readonly #handle: number;
  #closedStatistics: ReturnType<ProcessGroup['statistics']> | undefined;

  constructor({ name, ranks, engine, worldRank, handle }: NativeGroupOptions) {
    this.name = name;
    this.engine = engine;
    this.ranks = Object.freeze([...ranks]);
    this.rank = ranks.indexOf(worldRank);
    this.size = ranks.length;
    this.#handle = handle;
  }

  allReduce(tensor: Tensor, { operation = 'sum' }: { readonly operation?: ReduceOperation } = {}): Work {
    checkTensor('allReduce', tensor);
    checkReduction(operation);
    return this.#start('allReduce', { input: tensor, output: tensor, reduction: operation });
  }

  allGather({ output, input }: { readonly output: Tensor; readonly input: Tensor }): Work {
    checkParts('allGather', { whole: output, part: input, group: this });
    return this.#start('allGather', { input, output });
  }

  reduceScatter(call: {
    readonly output: Tensor;
    readonly input: Tensor;
    readonly operation?: ReduceOperation;
  }): Work {
    const { output, input, operation = 'sum' } = call;
    checkParts('reduceScatter', { whole: input, part: output, group: this });
    checkReduction(operation);
    return this.#start('reduceScatter', { input, output, reduction: operation });
  }

  broadcast(tensor: Tensor, { root }: { readonly root: number }): Work {
    checkTensor('broadcast', tensor);
    checkMember(root, this);
    return this.#start('broadcast', { input: tensor, output: tensor, peer: root });
  }

  allToAll({ output, input }: { readonly output: Tensor; readonly input: Tensor }): Work {
    checkExchange({ input, output, group: this });
    return this.#start('allToAll', { input, output });
  }

  send(tensor: Tensor, { to }: { readonly to: number }): Work {
    checkTensor('send', tensor);
    checkPeer(to, this);
    return this.#start('send', { input: tensor, peer: to });
  }

  receive(tensor: Tensor, { from }: { readonly from: number }): Work {
    checkTensor('receive', tensor);
    checkPeer(from, this);
    return this.#start('receive', { output: tensor, peer: from });
  }

  barrier(): Work {
    return this.#start('barrier', {});
  }

  statistics(): Readonly<Record<CommunicationOperation, OperationCount>> {
    if (this.#closedStatistics !== undefined) return this.#closedStatistics;
    const numbers = callNative(() => addon().statisticsOfGroup(this.#handle));
    return Object.fromEntries(
      operations.map((operation, index) => {
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
   * Operations that are not done yet fail with MTL_CLOSED; members that wait for this one learn that it left.
   */
  close(): void {
    if (this.#closedStatistics !== undefined) return;
    this.#closedStatistics = this.statistics();
    callNative(() => addon().closeGroup(this.#handle));
  }

  #start(
    operation: CommunicationOperation,
    { input, output, reduction = 'sum', peer = noPeer }: Start,
  ): Work {
    const ticket = callNative(() =>
      addon().startOperation(this.#handle, {
        operation: operations.indexOf(operation),
        reduction: reductions.indexOf(reduction),
        peer,
        input: input?.handle ?? noTensor,
        output: output?.handle ?? noTensor,
      }),
    );
    return new NativeWork(this.#handle, ticket);
  }
}

class NativeWork implements Work {
  readonly #group: number;
  readonly #ticket: number;
  #isDone = false;
  #error: unknown;

  constructor(group: number, ticket: number) {
    this.#group = group;
    this.#ticket = ticket;
  }

  get isDone(): boolean {
    return this.#isDone || callNative(() => addon().isOperationDone(this.#group, this.#ticket));
  }

  wait(): void {
    if (!this.#isDone) {
      try {
        callNative(() => addon().waitForOperation(this.#group, this.#ticket));
      } catch (error) {
        // while a graph is recorded nothing is waited for: it is still under way
        if (MtlError.isInstance(error) && error.code === 'MTL_CAPTURE') throw error;
        this.#error = error;
      }
      this.#isDone = true;
    }
    if (this.#error !== undefined) throw this.#error;
  }
}
