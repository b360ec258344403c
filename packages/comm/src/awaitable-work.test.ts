import { expect, it } from 'vitest';
import { AwaitableWork, CallbackWork } from './awaitable-work.js';

/** Work that is done when it has been asked so often. */
class LaterWork extends AwaitableWork {
  waits = 0;
  #asked = 0;

  constructor(
    private readonly after: number,
    private readonly error?: Error,
  ) {
    super();
  }

  get isDone(): boolean {
    return ++this.#asked > this.after;
  }

  wait(): void {
    this.waits += 1;
    if (this.error !== undefined) throw this.error;
  }
}

it('is awaited while the event loop goes on', async () => {
  let turns = 0;
  const turn = (): void => {
    turns += 1;
    if (turns < 1000) timer = setImmediate(turn);
  };
  let timer = setImmediate(turn);
  const work = new LaterWork(120);
  await work;
  clearImmediate(timer);
  expect(work.waits).toBe(1);
  // as long as it asked at every turn, and in the milliseconds after that
  expect(turns).toBeGreaterThanOrEqual(100);
});

it('rejects with what its wait throws', async () => {
  await expect(new LaterWork(3, new Error('a rank died'))).rejects.toThrow('a rank died');
});

it('that is done tells every wait', async () => {
  let waits = 0;
  const work = new CallbackWork({ wait: () => void waits++ });
  work.wait();
  await work;
  expect([work.isDone, waits]).toEqual([true, 2]);
});
