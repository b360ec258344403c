import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { ncclMessageChannels } from './nccl-message-channels.js';

it('is what communicators of messages are limited to', () => {
  const service = new URL('../../native/engines/nccl/with_header/service.cc', import.meta.url);
  expect(readFileSync(service, 'utf8')).toContain(`kMessageBlocks = ${ncclMessageChannels};`);
});
