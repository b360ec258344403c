import { beforeEach, expect, it, vi } from 'vitest';
import type { DeviceWaits } from '../device-waits.js';
import { NativeGroup } from './native-group.js';

const calls: string[] = [];
vi.mock('./addon.js', () => ({
  callNative: (body: () => unknown) => body(),
  addon: () => ({
    startOperation: () => 7,
    waitForOperation: (group: number, ticket: number) => void calls.push(`wait ${group} ${ticket}`),
  }),
}));

beforeEach(() => void calls.splice(0));

const newGroup = (deviceWaits?: DeviceWaits): NativeGroup =>
  new NativeGroup({
    name: 'world',
    ranks: [0, 1],
    worldRank: 0,
    engine: 'nccl',
    handle: 3,
    ...(deviceWaits === undefined ? {} : { deviceWaits }),
  });

it('waits once for an operation', () => {
  const work = newGroup().barrier();
  work.wait();
  work.wait();
  expect(calls).toEqual(['wait 3 7']);
});

it('lets the waits of a device be measured', () => {
  const waits = {
    wait: (enqueue: () => void) => {
      calls.push('before');
      enqueue();
      calls.push('after');
    },
  };
  const work = newGroup(waits as unknown as DeviceWaits).barrier();
  expect(calls).toEqual([]);
  work.wait();
  work.wait();
  expect(calls).toEqual(['before', 'wait 3 7', 'after']);
});
