import { setTimeout as sleep } from 'node:timers/promises';
import type { World } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';

export interface AwaitWorkResult {
  readonly sum: readonly number[];
  /** The number of timer ticks of this thread while the operation was awaited. */
  readonly ticks: number;
}

/** Runs an all-reduce that rank 0 starts late, while the other ranks await it. */
export default async function awaitWork({ rank, group }: World): Promise<AwaitWorkResult> {
  using tensor = Tensor.from([rank + 1], { shape: [1], dtype: 'float32' });
  let ticks = 0;
  const timer = setInterval(() => void ticks++, 1);
  if (rank === 0) await sleep(200);
  await group.allReduce(tensor);
  clearInterval(timer);
  return { sum: [...tensor.read<'float32'>()], ticks };
}
