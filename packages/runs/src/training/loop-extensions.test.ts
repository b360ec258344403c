import { type MicroBatchSamplerOptions, sampleMicroBatches } from '@mtl/data';
import { describe, expect, it } from 'vitest';
import { samplesOfStep } from './loop-extensions.js';

describe('samplesOfStep', () => {
  it.each([
    ['single', {}],
    ['cyclic', {}],
    ['cyclic', { epochMultiple: 12 }],
  ] as const)('gives the samples that all ranks read, over the end of an epoch: %s %o', (kind, more) => {
    const [totalSamples, globalBatchSize, count] = [59, 12, 2];
    // 59 is not a multiple of the number of samples that all ranks read at a time, so each epoch omits some
    // samples
    const sampler: MicroBatchSamplerOptions = {
      kind,
      totalSamples,
      microBatchSize: 2,
      shareOfBatch: { index: 0, count },
      seed: 5,
      ...more,
    };
    const ranks = Array.from({ length: count }, (_, index) =>
      sampleMicroBatches({ ...sampler, shareOfBatch: { index, count } }),
    );
    for (let consumedSamples = 0; consumedSamples < (kind === 'single' ? 48 : 180); consumedSamples += 12) {
      const read = Array.from({ length: 3 }, () => ranks.flatMap((rank) => rank.next().value ?? [])).flat();
      expect(samplesOfStep(sampler, { consumedSamples, globalBatchSize })).toEqual(read);
    }
  });
});
