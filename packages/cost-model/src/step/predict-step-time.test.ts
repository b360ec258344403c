import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadProfile } from '../open-profile.js';
import type { ModelSize } from '../operations/model-size.js';
import { listedProfile } from '../profiles/profile.js';
import { chunkOperations } from './chunk-passes.js';
import type { Layout } from './layout.js';
import { predictStepTime } from './predict-step-time.js';

const profile = listedProfile(loadProfile('a100-80gb-megatron-2021'));
const model: ModelSize = {
  numLayers: 32,
  hiddenSize: 20_480,
  numHeads: 128,
  sequenceLength: 2048,
  vocabularySize: 51_200,
};
const layout: Layout = {
  tp: 8,
  pp: 8,
  dp: 1,
  microBatchSize: 1,
  globalBatchSize: 32,
  recomputation: 'full',
};
const predictSeconds = (change: Partial<Layout>, size: Partial<ModelSize> = {}): number =>
  predictStepTime({ model: { ...model, ...size }, layout: { ...layout, ...change }, profile }).seconds;

describe('predictStepTime', () => {
  it('has a breakdown that sums to the step', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(1, 2, 4, 8),
        fc.constantFrom(1, 2, 4, 8),
        fc.constantFrom(1, 2, 4),
        fc.boolean(),
        fc.constantFrom('none' as const, 'selective' as const, 'full' as const),
        (tp, pp, dp, sequenceParallel, recomputation) => {
          const { seconds, breakdown } = predictStepTime({
            model,
            layout: {
              ...layout,
              tp,
              pp,
              dp,
              sequenceParallel,
              recomputation,
            },
            profile,
          });
          const sum = Object.values(breakdown).reduce((total, part) => total + part, 0);
          expect(sum / seconds).toBeCloseTo(1, 9);
          expect(Math.min(...Object.values(breakdown))).toBeGreaterThan(-1e-9);
        },
      ),
      { numRuns: 40 },
    );
  });

  it('takes operations from elsewhere, and shows what they cost', () => {
    const options = { model, layout, profile };
    const operations = chunkOperations(options);
    const { seconds } = predictStepTime(options);
    expect(predictStepTime({ ...options, operations }).seconds).toBe(seconds);
    const kernel = { kind: 'kernel', name: 'another', time: 'kernels', bytes: 1e10 } as const;
    const slower = operations.map((chunk) => [...chunk, { times: 1, forward: [kernel], backward: [] }]);
    const bandwidth = 2039e9 * profile.hardware.memory.efficiency.value;
    const each = 1e10 / bandwidth + profile.hardware.kernelStartSeconds.value;
    // 32 micro-batches, and 7 passes of other ranks while the pipeline fills
    expect(predictStepTime({ ...options, operations: slower }).seconds - seconds).toBeCloseTo(39 * each, 6);
    expect(() => predictStepTime({ ...options, operations: operations.slice(1) })).toThrow(
      'operations of 7 chunks',
    );
  });

  it('exposes the part of the communication of sharded parameters that a program never overlaps', () => {
    const zero3 = listedProfile(loadProfile('a100-80gb-zero3'));
    const predict = (linkFactor: number, overlap: number): number => {
      const trial = { source: 'trial' };
      const constants = {
        linkFactor: { value: linkFactor, ...trial },
        overlap: { value: overlap, ...trial },
      };
      const software = { ...zero3.software, shardedParameters: constants };
      const replicas = { ...layout, tp: 1, pp: 1, dp: 512, globalBatchSize: 512 };
      return predictStepTime({ model, layout: replicas, profile: { ...zero3, software } }).seconds;
    };
    const [all, none] = [predict(1, 1), predict(1, 1e-9)];
    const communication = predict(0.5, 1e-9) - none;
    // half of the bandwidth takes twice the time, which nothing hides
    expect(predict(0.25, 1e-9)).toBeCloseTo(none + 3 * communication, 6);
    // the hidden time is at most the time of the computation, and hiding costs a part of it
    expect(none - all).toBeGreaterThan(0);
    expect(none - all).toBeLessThan(none - communication);
    const half = predict(1, 0.5);
    expect(half).toBeGreaterThanOrEqual(all);
    expect(half).toBeLessThan(none);
  });

  it('accepts the names that sizes had before', () => {
    const { tp, pp, dp, ...others } = layout;
    const sizes = { tensorParallelSize: tp, pipelineParallelSize: pp, dataParallelSize: dp };
    expect(predictStepTime({ model, layout: { ...others, ...sizes }, profile }).seconds).toBe(
      predictSeconds({}),
    );
  });

  it('refuses sizes that do not divide, with the nearest that does', () => {
    expect(() => predictSeconds({ pp: 5 })).toThrow('layers 32 cannot be split over 5');
    expect(() => predictSeconds({ pp: 5 })).toThrow(
      expect.objectContaining({ code: 'MTL_PLAN_LAYOUT', expected: 'a multiple of 5, such as 30' }),
    );
    expect(() => predictSeconds({ tp: 3 })).toThrow('attention heads 128');
    expect(() => predictSeconds({ globalBatchSize: 33, dp: 2 })).toThrow('global batch 33');
  });
});
