import { expect } from 'vitest';

/**
 * Repeats `attempt`, which returns its duration in milliseconds, until it takes less than a second, five
 * times at most. A busy machine makes an attempt slower and nothing makes it faster, so one attempt in time
 * is proof.
 */
export async function expectOnceWithinASecond(attempt: () => Promise<number>): Promise<void> {
  const delays: number[] = [];
  do delays.push(await attempt());
  while (delays.at(-1)! >= 1000 && delays.length < 5);
  expect(Math.min(...delays), `${delays}`).toBeLessThan(1000);
}
