import { UsageError } from '@mtl/errors';
import type { Tensor } from '@mtl/kernels';
import type { CommunicationOperation, OperationCount, ProcessGroup, Work } from './process-group.js';

const done: Work = { wait: () => {}, isDone: true };
const none: OperationCount = { calls: 0, sentBytes: 0, waitedSeconds: 0 };

/** The group of a process alone: nothing to exchange, results are copies of the inputs. */
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

  allReduce(): Work {
    return done;
  }

  allGather({ output, input }: { readonly output: Tensor; readonly input: Tensor }): Work {
    return copy(input, output);
  }

  reduceScatter({ output, input }: { readonly output: Tensor; readonly input: Tensor }): Work {
    return copy(input, output);
  }

  broadcast(): Work {
    return done;
  }

  allToAll({ output, input }: { readonly output: Tensor; readonly input: Tensor }): Work {
    return copy(input, output);
  }

  send(): Work {
    throw new UsageError('MTL_GROUP', `group ${this.name} has nobody to send to`);
  }

  receive(): Work {
    throw new UsageError('MTL_GROUP', `group ${this.name} has nobody to receive from`);
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
  if (input.size !== output.size || input.dtype !== output.dtype) {
    throw new UsageError(
      'MTL_SHAPE',
      `${input.size} ${input.dtype} into ${output.size} ${output.dtype} elements`,
    );
  }
  output.write(input.read());
  return done;
}
