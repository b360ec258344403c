import { afterEach, expect, it, vi } from 'vitest';
import { glanceMs, listen } from '../page/server.js';
import type { RunsEvent } from '../src/api-types.js';

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

it('asks for the runs now and then while the page is hidden, and keeps no connection', async () => {
  vi.useFakeTimers();
  let update = (): void => {};
  const page = {
    hidden: true,
    addEventListener: (_: string, listener: () => void): void => {
      update = listener;
    },
  };
  let open = 0;
  vi.stubGlobal('document', page);
  vi.stubGlobal(
    'EventSource',
    class {
      constructor() {
        open += 1;
      }
      close(): void {
        open -= 1;
      }
    },
  );
  const asked: string[] = [];
  let isAway = false;
  vi.stubGlobal('fetch', async (path: string) => {
    asked.push(path);
    if (isAway) throw new TypeError('fetch failed');
    return new Response(JSON.stringify({ directory: '/runs', runs: [{ id: 'a' }] }));
  });
  const events: RunsEvent[] = [];
  listen({ onRuns: (event) => events.push(event), onConnected: () => {} });
  expect(open).toBe(0);
  await vi.advanceTimersByTimeAsync(2.5 * glanceMs);
  expect(events).toEqual([0, 1].map(() => ({ directory: '/runs', runs: [{ id: 'a' }], removed: [] })));
  isAway = true;
  await vi.advanceTimersByTimeAsync(glanceMs);
  expect(asked).toEqual(['api/runs', 'api/runs', 'api/runs']);
  page.hidden = false;
  update();
  expect(open).toBe(1);
  await vi.advanceTimersByTimeAsync(3 * glanceMs);
  expect(asked.length).toBe(3);
  page.hidden = true;
  update();
  expect(open).toBe(0);
});
