import { expect, it } from 'vitest';
import { AwaitableWork, CallbackWork } from './awaitable-work.js';

/** Work that becomes done once `isDone` has been read a given number of times. */
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
  // `isDone` is read once per turn for the first turns, and then once per millisecond
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
