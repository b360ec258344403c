import { describe, expect, it } from 'vitest';
import { loadAddon } from './addon.js';
import type { CommAddon } from './comm-addon.js';

describe('the native addon', () => {
  const addon = loadAddon({ usesTensors: false });
  const wrong = (fields: unknown): never => fields as never;

  it.each<[string, (job: number) => unknown, RegExp]>([
    ['no object', (job) => addon.joinHost(job, wrong(5)), /argument 1 is not an object/],
    ['a missing field', (job) => addon.joinHost(job, wrong({ timeoutMs: 1 })), /graceMs is not a number/],
    [
      'text for a number',
      (job) => addon.joinHost(job, wrong({ timeoutMs: '1' })),
      /timeoutMs is not a number/,
    ],
    [
      'a fraction for an integer',
      (job) => addon.abortJob(job, { code: 'MTL_X', message: '', rank: 0.5 }),
      /rank is not an integer/,
    ],
    ['a number for text', (job) => addon.abortJob(job, wrong({ code: 1 })), /code is not a string/],
    [
      'numbers for bytes',
      (job) => addon.connectGlooGroup(job, wrong({ mesh: 1, addresses: [[1]] })),
      /addresses is not an array of Uint8Arrays/,
    ],
  ])('rejects %s and names the field', (_, call, message) => {
    const job = addon.createJob(0);
    try {
      expect(() => call(job)).toThrow(message);
      expect(() => call(job)).toThrow(expect.objectContaining({ code: 'MTL_ARGUMENT' }));
    } finally {
      addon.closeJob(job);
    }
  });

  it('has the version of bindings that this package expects', () => {
    expect((addon satisfies CommAddon).bindings).toBe(2);
  });
});
