import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { EventStreams } from './event-streams.js';
import type { RunsFolder } from './runs-folder.js';

it('sends the runs and ends where it is closed while a page is added', async () => {
  let finishRefresh = (): void => {};
  const refreshed = new Promise<void>((resolve) => {
    finishRefresh = resolve;
  });
  const folder = {
    directory: '/runs',
    summaries: [{ id: 'one' }],
    onChange: () => {},
    refresh: () => refreshed,
  };
  const streams = new EventStreams(folder as unknown as RunsFolder, { pollMs: 10 });
  let isFinished = false;
  const server = createServer((_request, response) => {
    response.on('finish', () => {
      isFinished = true;
    });
    void streams.add(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    streams.close();
    finishRefresh();
    // as the dashboard does: a response that is not complete by then is cut off
    setTimeout(() => server.closeAllConnections(), 500);
    await expect(response.text()).resolves.toContain('"one"');
    expect(isFinished).toBe(true);
  } finally {
    server.close();
  }
});
