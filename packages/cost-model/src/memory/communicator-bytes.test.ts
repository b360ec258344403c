import { expect, it } from 'vitest';
import { loadProfile } from '../open-profile.js';
import { gpuProfile } from '../profiles/hardware-profile.js';
import { communicatorBytes } from './communicator-bytes.js';

const gpu = gpuProfile.parse(loadProfile('h100-80gb').hardware);
const options = { gpu, messageChannels: 8 };
const none = { hasCollectives: false, numReceivers: 0, numSenders: 0 };
const inside = { size: 8, perNode: 8 };
const between = { size: 16, perNode: 2 };
const mebibyte = 2 ** 20;

it('counts rings of collectives and both ends of messages, each with its buffers', () => {
  const bytes = (use: Partial<Parameters<typeof communicatorBytes>[0][number]>): number =>
    communicatorBytes([{ ...none, group: inside, ...use }], options) / mebibyte;
  expect(bytes({})).toBe(0);
  expect(bytes({ hasCollectives: true })).toBe(24 * (10 + 2));
  expect(bytes({ hasCollectives: true, group: between })).toBe(16 * (10 + 10));
  expect(bytes({ numSenders: 2 })).toBe(2 * 8 * 10);
  expect(bytes({ numReceivers: 1 })).toBe(8 * 2);
  expect(bytes({ numReceivers: 1, group: between })).toBe(8 * 10);
});

it('is the sum of all groups, and nothing where a profile has no such constants', () => {
  const uses = [
    { ...none, group: inside, hasCollectives: true },
    { ...none, group: between, hasCollectives: true, numSenders: 1 },
  ];
  expect(communicatorBytes(uses, options) / mebibyte).toBe(24 * 12 + 16 * 20 + 80);
  expect(communicatorBytes(uses, { ...options, gpu: {} })).toBe(0);
});
