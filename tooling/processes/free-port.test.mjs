import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { freePort } from './free-port.mjs';

it('draws another port each time, below those that the system gives away', async () => {
  const ports = [];
  for (let index = 0; index < 20; index++) ports.push(await freePort());
  expect(new Set(ports).size).toBe(20);
  expect(Math.min(...ports)).toBeGreaterThan(1023);
  expect(Math.max(...ports)).toBeLessThan(32_768);
});

it('leaves out a port that something listens on', async () => {
  const taken = (await freePort()) + 1;
  const server = createServer().listen(taken, '127.0.0.1');
  onTestFinished(() => void server.close());
  // if a different process already listens on this port, the port is also taken
  await Promise.race([once(server, 'listening'), once(server, 'error')]);
  expect(await freePort()).not.toBe(taken);
});
