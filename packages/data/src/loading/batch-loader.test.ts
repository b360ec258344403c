import { mkdtempSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TokenBatch } from '@mtl/layout';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  buildGptDatasets,
  createBatchLoader,
  IndexedDatasetWriter,
  openGptDataset,
  parseDataPath,
  type SampleDataset,
} from '../index.js';
import type { BatchLoader } from './batch-loader.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
let dataset: SampleDataset;

function write(name: string, documents: number): string {
  const prefix = join(directory, name);
  const writer = new IndexedDatasetWriter({ prefix, dtype: 'int32' });
  for (let i = 0; i < documents; i++) {
    writer.addSequence(Array.from({ length: 40 + (i % 7) }, (_, j) => 1000 * i + j));
    writer.endDocument();
  }
  writer.finish();
  return prefix;
}

beforeAll(() => {
  const blend = parseDataPath(['2', write('a', 30), '1', write('b', 30)]);
  const numSamples = { train: 60, valid: 0, test: 0 };
  dataset = buildGptDatasets({
    blend,
    numSamples,
    sequenceLength: 16,
    seed: 1,
    resetAttentionMask: true,
    endOfDocument: 3,
    dataCachePath: false,
  }).train!;
});
afterAll(() => {
  dataset.close();
  rmSync(directory, { recursive: true, force: true });
});

async function take(loader: BatchLoader, count = Number.POSITIVE_INFINITY): Promise<TokenBatch[]> {
  const batches: TokenBatch[] = [];
  for await (const batch of loader) {
    batches.push(batch);
    if (batches.length === count) break;
  }
  return batches;
}

const sampler = { kind: 'single', microBatchSize: 4, shareOfBatch: { index: 1, count: 2 } } as const;

it('reads no sample of another data-parallel rank', async () => {
  const read: number[] = [];
  const fillRow: SampleDataset['fillRow'] = (call) => {
    read.push(call.sample);
    dataset.fillRow(call);
  };
  const watched = new Proxy(dataset, {
    get: (target, property) => {
      if (property === 'fillRow') return fillRow;
      const value = Reflect.get(target, property, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const batches = await take(createBatchLoader({ dataset: watched, sampler, thread: 'main' }));
  expect(batches).toHaveLength(7);
  // this rank reads 4 of every 8 samples
  expect(read).toEqual(batches.flatMap(({ sampleNumbers }) => [...sampleNumbers]));
});

describe.each(['worker', 'main'] as const)('createBatchLoader (%s thread)', (thread) => {
  it('gives the samples of the sampler in order, row by row', async () => {
    const batches = await take(createBatchLoader({ dataset, sampler, thread }));
    expect(batches).toHaveLength(7);
    for (const [i, batch] of batches.entries()) {
      expect([...batch.sampleNumbers]).toEqual([0, 1, 2, 3].map((row) => 8 * i + 4 + row));
      for (let row = 0; row < 4; row++) {
        const sample = dataset.sample(batch.sampleNumbers[row]!);
        const part = (array: Int32Array | Float32Array) =>
          Array.from({ length: 16 }, (_, position) => array[4 * position + row]);
        expect(part(batch.tokens)).toEqual([...sample.tokens]);
        expect(part(batch.labels)).toEqual([...sample.labels]);
        expect(part(batch.lossMask)).toEqual([...sample.lossMask]);
        expect(part(batch.positionIds)).toEqual([...sample.positionIds]);
        expect([...batch.keyStart!.subarray(16 * row, 16 * row + 16)]).toEqual([...sample.keyStart!]);
      }
    }
  });

  it('goes on at the samples consumed', async () => {
    const whole = await take(createBatchLoader({ dataset, sampler, thread }));
    const rest = await take(
      createBatchLoader({ dataset, sampler: { ...sampler, consumedSamples: 24 }, thread }),
    );
    expect(rest).toEqual(whole.slice(3));
  });

  it('never changes a batch that it gave out', async () => {
    const loader = createBatchLoader({ dataset, sampler, thread, readAhead: 1 });
    const { value: first } = await loader.next();
    const before = structuredClone(first!.tokens);
    await loader.next();
    await loader.next();
    expect(first!.tokens).toEqual(before);
    await loader.close();
    expect(await loader.next()).toEqual({ done: true, value: undefined });
  });

  it('refuses settings that cannot work before it starts', () => {
    for (const change of [
      { readAhead: 0 },
      { sampler: { ...sampler, totalSamples: 61 } },
      { sampler: { ...sampler, microBatchSize: 0 } },
    ]) {
      expect(() => createBatchLoader({ dataset, sampler, thread, ...change })).toThrow(
        expect.objectContaining({ code: expect.stringMatching(/MTL_DATA_(READ_AHEAD|SAMPLER)/) }),
      );
    }
  });

  it('raises the coded error of a file that shrank', async () => {
    const prefix = write('shrinking', 30);
    const options = { prefix, split: 'train', sequenceLength: 16, seed: 1, cacheDirectory: false } as const;
    using shrinking = openGptDataset(options);
    truncateSync(`${prefix}.bin`, 100);
    await expect(take(createBatchLoader({ dataset: shrinking, sampler, thread }))).rejects.toMatchObject({
      code: 'MTL_DATA_INDEXED_DATASET',
    });
  });
});

/** Blocks the event loop without using the CPU core that the worker thread may need. */
function block(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

// A busy machine may suspend the worker thread, so the test is repeated with longer and longer blocks until
// one suffices. A loader that needed the event loop would wait after every block.
describe('reading ahead', () => {
  it('fills up to readAhead batches', async () => {
    let waitedMilliseconds = Number.POSITIVE_INFINITY;
    for (let blockMs = 500; blockMs <= 8000 && waitedMilliseconds > 0; blockMs *= 2) {
      const loader = createBatchLoader({
        dataset,
        sampler: { kind: 'cyclic', microBatchSize: 4 },
        readAhead: 6,
      });
      await loader.next();
      block(blockMs);
      for (let i = 0; i < 5; i++) await loader.next();
      ({ waitedMilliseconds } = loader.statistics);
      await loader.close();
    }
    // this check does not depend on speed: if a batch is ready, `next` must not wait at all
    expect(waitedMilliseconds).toBe(0);
  });

  it('has batches ready while the event loop is blocked by a step', async () => {
    let numWaited = Number.POSITIVE_INFINITY;
    // the first step lasts 10 ms, and assembling a batch takes far less
    for (let stepMs = 10; stepMs <= 160 && numWaited > 10; stepMs *= 2) {
      const loader = createBatchLoader({
        dataset,
        sampler: { kind: 'cyclic', microBatchSize: 4 },
        readAhead: 3,
      });
      await loader.next();
      numWaited = 0;
      for (let step = 0; step < 20; step++) {
        const before = loader.statistics.waitedMilliseconds;
        block(stepMs);
        await loader.next();
        if (loader.statistics.waitedMilliseconds > before) numWaited++;
      }
      const { batches } = loader.statistics;
      await loader.close();
      expect(batches).toBe(21);
    }
    expect(numWaited).toBeLessThanOrEqual(10);
  });
});
