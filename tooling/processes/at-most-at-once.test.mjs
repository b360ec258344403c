import { describe, expect, it } from 'vitest';
import { atMostAtOnce } from './at-most-at-once.mjs';

/** Makes jobs that end on request, and records their events. */
function heldJobs() {
  const [ends, events] = [new Map(), []];
  const job = (item) => {
    events.push(`begin ${item}`);
    return new Promise((resolve, reject) => ends.set(item, { resolve, reject }));
  };
  return { ends, events, job };
}
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('atMostAtOnce', () => {
  it('begins in order, and one more whenever one ends, well or not', async () => {
    const { ends, events, job } = heldJobs();
    const results = atMostAtOnce({ limit: 2, items: ['a', 'b', 'c', 'd'] }, job);
    await turn();
    expect(events).toEqual(['begin a', 'begin b']);
    ends.get('b').resolve('of b');
    expect(await results[1]).toBe('of b');
    await turn();
    expect(events.slice(2)).toEqual(['begin c']);
    ends.get('a').reject(new Error('no a'));
    await expect(results[0]).rejects.toThrow('no a');
    await turn();
    expect(events.slice(3)).toEqual(['begin d']);
    ends.get('c').resolve(3);
    ends.get('d').resolve(4);
    expect(await Promise.all(results.slice(2))).toEqual([3, 4]);
  });

  it('leaves it to the caller to listen: a failure behind another one does not end the process', async () => {
    const failing = atMostAtOnce({ limit: 2, items: [1, 2, 3] }, (item) =>
      Promise.reject(new Error(`${item}`)),
    );
    await expect(failing[0]).rejects.toThrow('1');
    await turn();
  });
});
