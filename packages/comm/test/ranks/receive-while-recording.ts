import { existsSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Work, World } from '@mtl/comm';
import { MtlError } from '@mtl/errors';
import { add, GraphMemory, Tensor } from '@mtl/kernels';

export interface ReceivedWhileRecording {
  readonly received: readonly number[];
  /** The results of the recorded operations, whose inputs are ones. */
  readonly doubled: readonly number[];
  /** The codes of the errors of operations that the recording rank may not start. */
  readonly refusals: readonly string[];
}

/** How long the receive is given to interfere, in milliseconds; an unguarded program fails within a few. */
const meanwhileMs = 300;
const options = { shape: [2], dtype: 'float32', device: 'cuda' } as const;
const sleeper = new Int32Array(new SharedArrayBuffer(4));
const pause = (milliseconds: number): void => void Atomics.wait(sleeper, 0, 0, milliseconds);

/**
 * Sends from rank 1 while rank 0, which already waits for the message, records a graph. The ranks signal each
 * other through files in `folder`. Returns undefined on rank 1.
 */
export async function receiveWhileRecording(
  { rank, group }: World,
  { folder, finish }: { readonly folder: string; readonly finish: (work: Work) => void },
): Promise<ReceivedWhileRecording | undefined> {
  const [recording, sent] = [`${folder}/recording`, `${folder}/sent`];
  // the first operation connects the engine, which is not part of this test
  const first = Tensor.zeros(options);
  finish(rank === 1 ? group.send(first, { to: 0 }) : group.receive(first, { from: 1 }));
  first.dispose();
  if (rank === 1) {
    while (!existsSync(recording)) await sleep(1);
    const tensor = Tensor.from([3, 5], options);
    finish(group.send(tensor, { to: 0 }));
    tensor.dispose();
    writeFileSync(sent, '');
    return undefined;
  }
  using memory = new GraphMemory('cuda');
  using received = Tensor.zeros(options);
  using ones = Tensor.from([1, 1], options);
  const work = group.receive(received, { from: 1 });
  const refusals: string[] = [];
  const refused = (use: () => unknown): void => {
    try {
      use();
    } catch (error) {
      refusals.push(MtlError.isInstance(error) ? error.code : String(error));
    }
  };
  using graph = memory.capture(() => {
    add({ output: ones, left: ones, right: ones });
    writeFileSync(recording, '');
    refused(() => work.wait());
    refused(() => work.isDone);
    refused(() => group.receive(received, { from: 1 }));
    // waits until the message is sent, except with NCCL: there the device itself waits for it, and it is
    // sent after the recording
    if (group.engine !== 'nccl') while (!existsSync(sent)) pause(1);
    pause(meanwhileMs);
    add({ output: ones, left: ones, right: ones });
  });
  finish(work);
  graph.launch();
  return { received: received.toArray(), doubled: ones.toArray(), refusals };
}
