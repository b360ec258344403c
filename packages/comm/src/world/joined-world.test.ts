import { expect, it } from 'vitest';
import type { ProcessEnvironment } from '../environment/process-environment.js';
import { type JoinedResources, JoinedWorld } from './joined-world.js';

it('closes its other parts also when one fails to close, in order, and says what failed first', () => {
  const closed: string[] = [];
  const part = (name: string, error?: Error): { close(): void } => ({
    close() {
      closed.push(name);
      if (error !== undefined) throw error;
    },
  });
  const parts = {
    engine: part('engine', new Error('the engine hangs')),
    store: part('store'),
    job: part('job'),
    server: part('server'),
    timeoutMs: 1,
  } as unknown as JoinedResources;
  const world = new JoinedWorld({ rank: 0, worldSize: 1 } as ProcessEnvironment, parts);
  expect(() => world.close()).toThrow('the engine hangs');
  expect(closed).toEqual(['engine', 'store', 'job', 'server']);
});
