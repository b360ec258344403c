import { afterEach, expect, it, vi } from 'vitest';
import { glanceMs, listenWhileVisible } from '../page/listen.js';
import type { RunsEvent } from '../src/api-types.js';

afterEach(() => void vi.useRealTimers());

it('looks at the runs now and then while the page is hidden, and keeps no connection', async () => {
  vi.useFakeTimers();
  let update = (): void => {};
  const page = {
    hidden: true,
    addEventListener: (_: string, listener: () => void): void => {
      update = listener;
    },
  };
  let numOpen = 0;
  const open = () => {
    numOpen += 1;
    return {
      close: (): void => {
        numOpen -= 1;
      },
    };
  };
  let numLooks = 0;
  let isAway = false;
  const look = async () => {
    numLooks += 1;
    if (isAway) throw new TypeError('fetch failed');
    return { directory: '/runs', runs: [] };
  };
  const events: RunsEvent[] = [];
  listenWhileVisible({ page, open, look, onRuns: (event) => events.push(event) });
  expect(numOpen).toBe(0);
  await vi.advanceTimersByTimeAsync(2.5 * glanceMs);
  const event = { directory: '/runs', runs: [], removed: [] };
  expect(events).toEqual([event, event]);
  isAway = true;
  await vi.advanceTimersByTimeAsync(glanceMs);
  expect([events.length, numLooks]).toEqual([2, 3]);
  page.hidden = false;
  update();
  update();
  expect(numOpen).toBe(1);
  await vi.advanceTimersByTimeAsync(3 * glanceMs);
  expect(numLooks).toBe(3);
  page.hidden = true;
  update();
  expect(numOpen).toBe(0);
});
