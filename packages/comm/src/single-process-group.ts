import { UsageError } from '@mtl/errors';
import { hasValues, type Tensor } from '@mtl/kernels';
import { checkExchange, checkMember, checkParts, checkReduction, checkTensor } from './check-operation.js';
import type {
  CommunicationOperation,
  OperationCount,
  ProcessGroup,
  ReduceOperation,
  Work,
} from './process-group.js';

const done: Work = { wait: () => {}, isDone: true };
const none: OperationCount = { calls: 0, sentBytes: 0, waitedSeconds: 0 };

/**
 * The group of a single process: results are copies of the inputs. It rejects what every group rejects, so
 * that a program that works alone also works with several processes.
 */
export class SingleProcessGroup implements ProcessGroup {
  readonly engine = 'single';
  readonly rank = 0;
  readonly size = 1;
  readonly ranks: readonly number[];

  constructor(
    readonly name: string,
    worldRank = 0,
  ) {
    this.ranks = [worldRank];
  }

  allReduce(tensor: Tensor, { operation = 'sum' }: { readonly operation?: ReduceOperation } = {}): Work {
    checkTensor('allReduce', tensor);
    checkReduction(operation);
    return done;
  }

  allGather({ output, input }: { readonly output: Tensor; readonly input: Tensor }): Work {
    checkParts('allGather', { whole: output, part: input, group: this });
    return copy(input, output);
  }

  reduceScatter(call: {
    readonly output: Tensor;
    readonly input: Tensor;
    readonly operation?: ReduceOperation;
  }): Work {
    const { output, input, operation = 'sum' } = call;
    checkParts('reduceScatter', { whole: input, part: output, group: this });
    checkReduction(operation);
    return copy(input, output);
  }

  broadcast(tensor: Tensor, { root }: { readonly root: number }): Work {
    checkTensor('broadcast', tensor);
    checkMember(root, this);
    return done;
  }

  allToAll({ output, input }: { readonly output: Tensor; readonly input: Tensor }): Work {
    checkExchange({ input, output, group: this });
    return copy(input, output);
  }

  send(): Work {
    throw new UsageError('MTL_GROUP', `group ${this.name} has no other rank to send to`);
  }

  receive(): Work {
    throw new UsageError('MTL_GROUP', `group ${this.name} has no other rank to receive from`);
  }

  barrier(): Work {
    return done;
  }

  statistics(): Readonly<Record<CommunicationOperation, OperationCount>> {
    return {
      allReduce: none,
      allGather: none,
      reduceScatter: none,
      broadcast: none,
      allToAll: none,
      send: none,
      receive: none,
      barrier: none,
    };
  }

  close(): void {}
}

function copy(input: Tensor, output: Tensor): Work {
  // there are no values on device meta
  if (hasValues(input.device)) output.write(input.read());
  return done;
}
