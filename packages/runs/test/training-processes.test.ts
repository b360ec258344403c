import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WaitForOthersArgument, WaitForOthersResult } from './ranks/wait-for-others.js';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-processes-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Runs ranks on two hosts. */
const run = (worldSize: number, change: Partial<WaitForOthersArgument>): Promise<WaitForOthersResult[]> =>
  runInMemoryRanks<WaitForOthersResult>({
    worldSize,
    ...rankThreads(new URL('./ranks/wait-for-others.ts', import.meta.url)),
    argument: { preparingMs: 0, intervalMs: 100, log: join(directory, 'log'), ...change },
    // threads may start one after the other on a busy machine
    timeoutMs: 60_000,
  });

describe('TrainingProcesses', () => {
  it('keep in contact while one works, first ranks of hosts prepare first, and all agree', async () => {
    const log = join(directory, 'order');
    const results = await run(4, { preparingMs: 1000, log });
    for (const { agreed, nothing, numContacts } of results) {
      expect(agreed).toEqual({ rank: 0, text: 'äöü', numbers: [Number.NaN, -Infinity] });
      expect(nothing).toBeUndefined();
      // a contact every 100 ms of a second, less often on a busy machine, but more than one in any case
      expect(numContacts).toBeGreaterThan(1);
    }
    const order = readFileSync(log, 'utf8');
    expect(order.slice(0, 2)).toBe('02');
    expect([...order.slice(2)].sort()).toEqual(['1', '3']);
  });

  it('end with the error of the rank whose task failed', async () => {
    await expect(run(2, { failingRank: 1 })).rejects.toThrow('rank 1 cannot');
  });
});
