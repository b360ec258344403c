import type { Tensor } from '@mtl/kernels';
import {
  checkExchange,
  checkMember,
  checkParts,
  checkPeer,
  checkReduction,
  checkTensor,
  type UnequalParts,
} from './check-operation.js';
import type {
  AllToAllOptions,
  CommunicationOperation,
  EngineName,
  OperationCount,
  ProcessGroup,
  ReduceOperation,
  Work,
} from './process-group.js';
import type { GroupOptions } from './world.js';

export interface CheckedGroupOptions extends GroupOptions {
  /** Global rank of this process. */
  readonly worldRank: number;
}

/** What a checked operation consists of. */
export interface CheckedOperation {
  readonly operation: CommunicationOperation;
  readonly input?: Tensor;
  readonly output?: Tensor;
  readonly reduction?: ReduceOperation;
  /** The root of a broadcast or the other rank of a message: a position in the group. */
  readonly peer?: number;
  /** Of an all-to-all whose parts are not equal. */
  readonly parts?: UnequalParts | undefined;
}

/** A process group that checks the operands of every operation before its engine starts it. */
export abstract class CheckedGroup implements ProcessGroup {
  abstract readonly engine: EngineName;
  readonly name: string;
  readonly ranks: readonly number[];
  readonly rank: number;
  readonly size: number;

  constructor({ name, ranks, worldRank }: CheckedGroupOptions) {
    this.name = name;
    this.ranks = Object.freeze([...ranks]);
    this.rank = ranks.indexOf(worldRank);
    this.size = ranks.length;
  }

  allReduce(tensor: Tensor, { operation = 'sum' }: { readonly operation?: ReduceOperation } = {}): Work {
    checkTensor('allReduce', tensor);
    checkReduction(operation);
    return this.start({ operation: 'allReduce', input: tensor, output: tensor, reduction: operation });
  }

  allGather({ output, input }: { readonly output: Tensor; readonly input: Tensor }): Work {
    checkParts('allGather', { whole: output, part: input, group: this });
    return this.start({ operation: 'allGather', input, output });
  }

  reduceScatter(call: {
    readonly output: Tensor;
    readonly input: Tensor;
    readonly operation?: ReduceOperation;
  }): Work {
    const { output, input, operation = 'sum' } = call;
    checkParts('reduceScatter', { whole: input, part: output, group: this });
    checkReduction(operation);
    return this.start({ operation: 'reduceScatter', input, output, reduction: operation });
  }

  broadcast(tensor: Tensor, { root }: { readonly root: number }): Work {
    checkTensor('broadcast', tensor);
    checkMember(root, this);
    return this.start({ operation: 'broadcast', input: tensor, output: tensor, peer: root });
  }

  allToAll(tensors: AllToAllOptions): Work {
    const parts = checkExchange(tensors, this);
    const { input, output } = tensors;
    return this.start({ operation: 'allToAll', input, output, parts });
  }

  send(tensor: Tensor, { to }: { readonly to: number }): Work {
    checkTensor('send', tensor);
    checkPeer(to, this);
    return this.start({ operation: 'send', input: tensor, peer: to });
  }

  receive(tensor: Tensor, { from }: { readonly from: number }): Work {
    checkTensor('receive', tensor);
    checkPeer(from, this);
    return this.start({ operation: 'receive', output: tensor, peer: from });
  }

  barrier(): Work {
    return this.start({ operation: 'barrier' });
  }

  abstract statistics(): Readonly<Record<CommunicationOperation, OperationCount>>;
  abstract close(): void;

  [Symbol.dispose](): void {
    this.close();
  }

  /** Starts an operation whose operands have been checked. */
  protected abstract start(operation: CheckedOperation): Work;
}
