import { runInMemoryRanks } from '@mtl/comm/testing';
import { reportEngine } from '@mtl/tooling/report-engine';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { beforeAll, describe, expect, it } from 'vitest';
import type { InMemoryCase } from './ranks/in-memory-cases.js';

type Results = Partial<Record<InMemoryCase, unknown>>;

const casesOfRanks = rankThreads(new URL('./ranks/in-memory-cases.ts', import.meta.url));

/** Runs cases on ranks that are started once for all cases. Returns the results of each case, by rank. */
async function run<Name extends InMemoryCase>(
  names: readonly Name[],
  { worldSize = 2, timeoutMs = 20_000 } = {},
): Promise<Record<Name, unknown[]>> {
  const ranks = await runInMemoryRanks<Results>({ ...casesOfRanks, worldSize, timeoutMs, argument: names });
  const results = names.map((name) => [name, ranks.map((own) => own[name])] as const);
  return Object.fromEntries(results) as Record<Name, unknown[]>;
}

describe('runInMemoryRanks', () => {
  it('sums over ranks', async () => {
    const results = await runInMemoryRanks<number[]>({
      ...rankThreads(new URL('./ranks/all-reduce.ts', import.meta.url)),
      worldSize: 3,
      argument: 'float32',
    });
    expect(results).toEqual(Array.from({ length: 3 }, () => [3, 6, 9]));
  });
});

describe('InMemoryGroup', () => {
  // the statistics are the first case, because they count all calls since the start
  const ofTwo = ['statistics', 'forgottenWait', 'changedInput', 'largeIntegers', 'misuse'] as const;
  const ofThree = ['engine', 'roundedOnce'] as const;
  let two: Record<(typeof ofTwo)[number], unknown[]>;
  let three: Record<(typeof ofThree)[number], unknown[]>;
  beforeAll(async () => {
    two = await run(ofTwo);
    three = await run(ofThree, { worldSize: 3 });
  });

  it('says that its engine is memory', () => {
    expect(three.engine).toEqual(['memory', 'memory', 'memory']);
    for (const engine of three.engine) reportEngine(String(engine));
  });

  it('takes inputs at the start and gives results in wait', () => {
    expect(two.forgottenWait).toEqual([
      [0, 1],
      [1, 1],
    ]);
    expect(two.changedInput).toEqual([
      [1, 2],
      [1, 2],
    ]);
  });

  it('sums integers exactly, wrapping, and 16-bit floats with one rounding', () => {
    expect(two.largeIntegers).toEqual(Array.from({ length: 2 }, () => [2 ** 25 + 1, -2]));
    expect(three.roundedOnce).toEqual([[258], [258], [258]]);
  });

  it('names who called something else, or did not come', async () => {
    await expect(run(['otherSize'])).rejects.toMatchObject({
      code: 'MTL_MISMATCH',
      details: { group: 'world', operation: 'allReduce', sequence: 'collective 0' },
    });
    await expect(run(['late'], { timeoutMs: 300 })).rejects.toMatchObject({
      code: 'MTL_TIMEOUT',
      details: { rank: 1, operation: 'barrier' },
    });
  });

  it('counts calls and bytes and refuses misuse at the start', () => {
    expect(two.statistics).toEqual([
      [1, 8, 1, 0, 1, [1, 1]],
      [1, 8, 1, 0, 1, [0, 0]],
    ]);
    const refused = [
      ...Array.from({ length: 5 }, () => 'MTL_SHAPE'),
      ...Array.from({ length: 3 }, () => 'MTL_GROUP'),
      ...Array.from({ length: 2 }, () => 'MTL_ARGUMENT'),
    ];
    expect(two.misuse).toEqual([refused, refused]);
  });
});
