import { hasValues } from '@mtl/kernels';
import { CallbackWork } from './awaitable-work.js';
import { CheckedGroup, type CheckedOperation } from './checked-group.js';
import type { CommunicationOperation, OperationCount, Work } from './process-group.js';

const done: Work = new CallbackWork();
const none: OperationCount = { calls: 0, sentBytes: 0, waitedSeconds: 0 };

/**
 * The group of a single process, in which results are copies of the inputs. It rejects every input that other
 * groups reject, so that a program that works with one process also works with several.
 */
export class SingleProcessGroup extends CheckedGroup {
  readonly engine = 'single';

  constructor(name: string, worldRank = 0) {
    super({ name, ranks: [worldRank], worldRank });
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

  protected start({ input, output }: CheckedOperation): Work {
    const isCopy = input !== undefined && output !== undefined && input !== output;
    // the check is needed because tensors on device meta have no values
    if (isCopy && hasValues(input.device)) output.write(input.read());
    return done;
  }
}
