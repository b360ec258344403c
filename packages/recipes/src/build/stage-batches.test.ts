import { createSampleBatch, type SampleDataset } from '@mtl/data';
import { describe, expect, it } from 'vitest';
import { stageBatches } from './stage-batches.js';

/** Ten samples of four tokens; tells which were read. */
function datasetOf(hasKeyStart: boolean): { dataset: SampleDataset; read: number[] } {
  const read: number[] = [];
  const sequenceLength = 4;
  const dataset = {
    ...{ length: 10, sequenceLength },
    createBatch: (batchSize) => createSampleBatch({ batchSize, sequenceLength, withKeyStart: hasKeyStart }),
    finishBatch: (batch) => batch,
    fillRow: ({ sample, batch, row }) => {
      read.push(sample);
      batch.sampleNumbers[row] = sample;
    },
  } as Partial<SampleDataset> as SampleDataset;
  return { dataset, read };
}

const sampler = { kind: 'single', microBatchSize: 2, dataParallelRank: 1, dataParallelSize: 2 } as const;

async function all(needsTokens: boolean, hasKeyStart: boolean) {
  const { dataset, read } = datasetOf(hasKeyStart);
  const batches = stageBatches({ dataset, sampler, needsTokens, thread: 'main' });
  const seen = [];
  for (let next = await batches.next(); next.done !== true; next = await batches.next())
    seen.push(next.value);
  await batches.close();
  return { seen, read };
}

describe('stageBatches', () => {
  it('reads nothing for stages between the ends, which get the same samples in the same order', async () => {
    const [end, between] = [await all(true, false), await all(false, false)];
    expect(end.read).toEqual([2, 3, 6, 7]);
    expect(between.read).toEqual([]);
    expect(between.seen).toEqual(
      end.seen.map(({ batchSize, sequenceLength, sampleNumbers }) => ({
        ...{ batchSize, sequenceLength, sampleNumbers },
        keyStart: undefined,
      })),
    );
  });

  it('reads for all stages where every layer must know where documents end', async () => {
    const { seen, read } = await all(false, true);
    expect(read).toEqual([2, 3, 6, 7]);
    expect(seen.every(({ keyStart }) => keyStart?.length === 8)).toBe(true);
  });
});
