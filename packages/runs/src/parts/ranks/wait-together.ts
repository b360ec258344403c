import type { ProcessGroup } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';

/**
 * Runs this rank's task and waits, without a time limit, until all ranks of a group have finished their
 * tasks. During the wait, every rank communicates at least every `intervalMs` milliseconds, so that the
 * timeout of collectives still detects a rank that hangs.
 *
 * @param group the group of the ranks; undefined for a single process
 */
export async function waitTogether<Result>(
  group: ProcessGroup | undefined,
  task: () => Promise<Result>,
  { intervalMs = 2000 }: { readonly intervalMs?: number } = {},
): Promise<Result> {
  if (group === undefined) return await task();
  const running = task();
  let isDone = false;
  const ended = running.then(() => {
    isDone = true;
  });
  for (;;) {
    await withinMilliseconds(ended, intervalMs);
    using numBusy = Tensor.from([isDone ? 0 : 1], { shape: [1], dtype: 'int32' });
    group.allReduce(numBusy).wait();
    if (numBusy.item() === 0) return await running;
  }
}

/**
 * Resolves when `promise` resolves, or after `milliseconds` at the latest. Rejects when `promise` rejects.
 */
async function withinMilliseconds(promise: Promise<void>, milliseconds: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const elapsed = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  await Promise.race([promise, elapsed]).finally(() => clearTimeout(timer));
}
