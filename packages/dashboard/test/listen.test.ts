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
  // the page requests the runs at once, so that its tab has a title even if it was opened in the background
  expect([numOpen, numLooks]).toEqual([0, 1]);
  await vi.advanceTimersByTimeAsync(2.5 * glanceMs);
  const event = { directory: '/runs', runs: [], removed: [], isAll: true };
  expect(events).toEqual([event, event, event]);
  isAway = true;
  await vi.advanceTimersByTimeAsync(glanceMs);
  expect([events.length, numLooks]).toEqual([3, 4]);
  page.hidden = false;
  update();
  update();
  expect(numOpen).toBe(1);
  await vi.advanceTimersByTimeAsync(3 * glanceMs);
  expect(numLooks).toBe(4);
  page.hidden = true;
  update();
  // no further request: the page knows the runs that the stream sent last
  expect([numOpen, numLooks]).toEqual([0, 4]);
});
