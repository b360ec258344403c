import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { ProcessGroup } from '../process-group.js';
import { DeviceAndHostGroup, ncclMessageChannels } from './nccl-engine.js';

it('closes the group of the host even if the group of the device fails to close', () => {
  const closed: string[] = [];
  const device = {
    close() {
      throw new Error('the device is gone');
    },
  } as unknown as ProcessGroup;
  const host = { close: () => void closed.push('host') } as unknown as ProcessGroup;
  expect(() => new DeviceAndHostGroup({ device, host }).close()).toThrow('the device is gone');
  expect(closed).toEqual(['host']);
});

it('is what communicators of messages are limited to', () => {
  const service = new URL('../../native/engines/nccl/with_header/service.cc', import.meta.url);
  expect(readFileSync(service, 'utf8')).toContain(`kMessageBlocks = ${ncclMessageChannels};`);
});
