import { runInMemoryRanks } from '@mtl/comm/testing';
import { reportEngine } from '@mtl/tooling/report-engine';
import { typescriptThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';

function run(argument: string, { worldSize = 2, timeoutMs = 20_000 } = {}): Promise<unknown[]> {
  const module = new URL('./ranks/in-memory-cases.ts', import.meta.url);
  return runInMemoryRanks({ ...typescriptThreads, worldSize, timeoutMs, module, argument });
}

describe('runInMemoryRanks', () => {
  it('sums over ranks', async () => {
    const results = await runInMemoryRanks<number[]>({
      ...typescriptThreads,
      worldSize: 3,
      module: new URL('./ranks/all-reduce.ts', import.meta.url),
      argument: 'float32',
    });
    expect(results).toEqual(Array.from({ length: 3 }, () => [3, 6, 9]));
    const engines = await run('engine', { worldSize: 3 });
    expect(engines).toEqual(['memory', 'memory', 'memory']);
    for (const engine of engines) reportEngine(String(engine));
  });
});

describe('InMemoryGroup', () => {
  it('takes inputs at the start and gives results in wait', async () => {
    expect(await run('forgottenWait')).toEqual([
      [0, 1],
      [1, 1],
    ]);
    expect(await run('changedInput')).toEqual([
      [1, 2],
      [1, 2],
    ]);
  });

  it('sums integers exactly, wrapping, and 16-bit floats with one rounding', async () => {
    expect(await run('largeIntegers')).toEqual(Array.from({ length: 2 }, () => [2 ** 25 + 1, -2]));
    expect(await run('roundedOnce', { worldSize: 3 })).toEqual([[258], [258], [258]]);
  });

  it('names who called something else, or did not come', async () => {
    await expect(run('otherSize')).rejects.toMatchObject({
      code: 'MTL_MISMATCH',
      details: { group: 'world', operation: 'allReduce', sequence: 'collective 0' },
    });
    await expect(run('late', { timeoutMs: 300 })).rejects.toMatchObject({
      code: 'MTL_TIMEOUT',
      details: { rank: 1, operation: 'barrier' },
    });
  });

  it('counts calls and bytes and refuses misuse at the start', async () => {
    expect(await run('statistics')).toEqual([
      [1, 8, 1, 0, 1, [1, 1]],
      [1, 8, 1, 0, 1, [0, 0]],
    ]);
    const refused = [
      ...Array.from({ length: 5 }, () => 'MTL_SHAPE'),
      ...Array.from({ length: 3 }, () => 'MTL_GROUP'),
      ...Array.from({ length: 2 }, () => 'MTL_ARGUMENT'),
    ];
    expect(await run('misuse')).toEqual([refused, refused]);
  });
});
