import { expect } from 'vitest';

/**
 * Repeats what takes so many milliseconds until it takes less than a second, five times at most. A busy
 * machine makes it slower, nothing makes it faster: one of five that was in time shows that all can be.
 */
export async function expectOnceWithinASecond(attempt: () => Promise<number>): Promise<void> {
  const delays: number[] = [];
  do delays.push(await attempt());
  while (delays.at(-1)! >= 1000 && delays.length < 5);
  expect(Math.min(...delays), `${delays}`).toBeLessThan(1000);
}
