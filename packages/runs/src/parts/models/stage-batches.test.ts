import type { SampleDataset } from '@mtl/data';
import { createTokenBatch } from '@mtl/data/internal';
import type { MaskedTokenBatch } from '@mtl/layout';
import type { MaskedStageBatch } from '@mtl/models';
import { describe, expect, it } from 'vitest';
import { bertRecipe } from './bert-recipe.js';
import { gptRecipe } from './gpt-recipe.js';
import type { StageBatches } from './stage-batches.js';

const sequenceLength = 4;

/** Makes a dataset of ten samples with four tokens each. `read` records the samples that are read. */
function makeDataset(hasKeyStart: boolean): { dataset: SampleDataset; read: number[] } {
  const read: number[] = [];
  const dataset = {
    length: 10,
    sequenceLength,
    createBatch: (batchSize) => createTokenBatch({ batchSize, sequenceLength, withKeyStart: hasKeyStart }),
    finishBatch: (batch) => batch,
    fillRow: ({ sample, batch, row }) => {
      read.push(sample);
      batch.sampleNumbers[row] = sample;
    },
  } as Partial<SampleDataset> as SampleDataset;
  return { dataset, read };
}

/** Makes a dataset of ten BERT samples with one to four tokens. */
function maskedDataset(): { dataset: SampleDataset<MaskedStageBatch>; read: number[] } {
  const read: number[] = [];
  const measureLength = (sample: number): number => 1 + (sample % 4);
  const dataset: Partial<SampleDataset<MaskedStageBatch>> = {
    length: 10,
    sequenceLength,
    measureLength,
    finishBatch: (batch) => batch,
    createBatch: (batchSize) => ({
      batchSize,
      sequenceLength,
      numMasked: 1,
      tokens: new Int32Array(batchSize * sequenceLength),
      lengths: new Int32Array(batchSize),
      sampleNumbers: new Float64Array(batchSize),
    }),
    fillRow: ({ sample, batch, row }) => {
      read.push(sample);
      batch.lengths[row] = measureLength(sample);
      batch.sampleNumbers[row] = sample;
    },
  };
  return { dataset: dataset as SampleDataset<MaskedStageBatch>, read };
}

const sampler = { kind: 'single', microBatchSize: 2, shareOfBatch: { index: 1, count: 2 } } as const;

async function seenIn<Batch>(batches: StageBatches<Batch>): Promise<Batch[]> {
  const seen: Batch[] = [];
  for (let next = await batches.next(); next.done !== true; next = await batches.next())
    seen.push(next.value);
  await batches.close();
  return seen;
}

async function ofGpt(needsTokens: boolean, hasKeyStart: boolean) {
  const { dataset, read } = makeDataset(hasKeyStart);
  return { seen: await seenIn(gptRecipe.batches({ dataset, sampler, needsTokens, thread: 'main' })), read };
}

async function ofBert(needsTokens: boolean) {
  const { dataset, read } = maskedDataset();
  return { seen: await seenIn(bertRecipe.batches({ dataset, sampler, needsTokens, thread: 'main' })), read };
}

describe('what stages between the ends of a pipeline get', () => {
  it('is the same samples in the same order, without reading anything: GPT', async () => {
    const [end, between] = [await ofGpt(true, false), await ofGpt(false, false)];
    expect(end.read).toEqual([2, 3, 6, 7]);
    expect(between.read).toEqual([]);
    expect(between.seen).toEqual(
      end.seen.map(({ batchSize, sampleNumbers }) => ({
        batchSize,
        sequenceLength,
        sampleNumbers,
        keyStart: undefined,
      })),
    );
  });

  it('is also the lengths of the samples, without reading anything: BERT', async () => {
    const [end, between] = [await ofBert(true), await ofBert(false)];
    expect(end.read).toEqual([2, 3, 6, 7]);
    expect(between.read).toEqual([]);
    expect(between.seen).toEqual(
      end.seen.map(({ batchSize, lengths, sampleNumbers }) => ({
        batchSize,
        sequenceLength,
        lengths,
        sampleNumbers,
      })),
    );
    // an outline (a batch without data) has no masked tokens to count, so only the last stage counts them
    const [{ count }] = bertRecipe.losses({ sentenceOrderHead: false } as never) as unknown as [
      { count: (batch: MaskedStageBatch) => number },
    ];
    expect(between.seen.map(count)).toEqual([0, 0]);
    expect((end.seen as MaskedTokenBatch[]).map(count)).toEqual([1, 1]);
  });

  it('is read where every layer must know where documents end', async () => {
    const { seen, read } = await ofGpt(false, true);
    expect(read).toEqual([2, 3, 6, 7]);
    expect(seen.every(({ keyStart }) => keyStart?.length === 8)).toBe(true);
  });
});
