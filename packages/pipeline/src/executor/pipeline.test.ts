import { type ProcessGroup, SingleProcessGroup } from '@mtl/comm';
import { numLiveTensors, Tensor } from '@mtl/kernels';
import { describe, expect, it } from 'vitest';
import { affineBatches, affineChain } from '../../test/support/affine-chain.js';
import { AffineStage } from '../../test/support/affine-stage.js';
import { Pipeline, type PipelineOptions } from '../index.js';
import { oneStage, type PipelineSchedule, type ScheduleAction } from '../schedules.js';

type Options = PipelineOptions<ReturnType<typeof affineBatches>[number]>;

const makeStages = (numChunks: number): Map<number, AffineStage> =>
  new Map(Array.from({ length: numChunks }, (_, chunk) => [chunk, new AffineStage({ chunk, numChunks })]));

/** Makes a schedule of two chunks on one rank, which runs all forward passes, then all backward passes. */
function twoChunks(numMicroBatches: number): PipelineSchedule {
  const each = (kind: 'F' | 'B', chunk: number): ScheduleAction[] =>
    Array.from({ length: numMicroBatches }, (_, microBatch) => ({ kind, chunk, microBatch }));
  const actions = [...each('F', 0), ...each('F', 1), ...each('B', 1), ...each('B', 0)];
  return { name: 'two chunks', numMicroBatches, placement: [0, 0], actions: [actions] };
}

const make = (options: Partial<Options>) =>
  new Pipeline({ stages: makeStages(1), schedule: oneStage, dtype: 'float64', device: 'cpu', ...options });

const step = (numMicroBatches: number) => ({
  batches: affineBatches(numMicroBatches, 3),
  lossFactors: { loss: 1 },
  onLoss: () => {},
});

describe('Pipeline in one process', () => {
  it('runs one micro-batch after the other on one stage', () => {
    const stages = makeStages(1);
    const order: string[] = [];
    const recorder = {
      span: <Result>(
        { kind, microBatch }: { kind: string; microBatch?: number | undefined },
        body: () => Result,
      ) => {
        if (microBatch !== undefined) order.push(`${kind}${microBatch}`);
        return body();
      },
    };
    const pipeline = make({ stages, recorder });
    pipeline.run({ ...step(2), beforeLastBackward: (chunk) => void order.push(`last of ${chunk}`) });
    expect(order).toEqual(['F0', 'B0', 'F1', 'last of 0', 'B1']);
    expect([pipeline.isFirst, pipeline.isLast, pipeline.lastRank]).toEqual([true, true, 0]);
  });

  it('hands over between chunks without a group', () => {
    const stages = makeStages(2);
    const numLive = numLiveTensors();
    const pipeline = make({ stages, schedule: twoChunks });
    pipeline.run(step(3));
    const expected = affineChain(affineBatches(3, 3), { numChunks: 2, lossFactor: 1 });
    expect([...stages.values()].map(({ gradients }) => gradients)).toEqual(expected.gradients);
    expect(numLiveTensors()).toBe(numLive);
  });

  it('tells a stage which micro-batch completes its gradients: the one whose backward comes last', () => {
    const completing: string[] = [];
    class Noting extends AffineStage {
      override forward(call: Parameters<AffineStage['forward']>[0]): Tensor | undefined {
        if (call.endsStep === true) completing.push(`micro-batch ${call.microBatch}`);
        return super.forward(call);
      }
    }
    // backward passes in the reverse order of forward passes
    const stack = (numMicroBatches: number): PipelineSchedule => {
      const all = Array.from({ length: numMicroBatches }, (_, microBatch) => ({ chunk: 0, microBatch }));
      const forward = all.map((one) => ({ kind: 'F' as const, ...one }));
      const backward = all.map((one) => ({ kind: 'B' as const, ...one })).reverse();
      return { name: 'stack', numMicroBatches, placement: [0], actions: [[...forward, ...backward]] };
    };
    const stages = new Map([[0, new Noting({ chunk: 0, numChunks: 1 })]]);
    make({ stages, schedule: stack }).run(step(3));
    make({ stages, schedule: oneStage }).run(step(3));
    expect(completing).toEqual(['micro-batch 0', 'micro-batch 2']);
  });

  it('asks for the schedule of each number of micro-batches once', () => {
    const asked: number[] = [];
    const pipeline = make({
      schedule: (count) => {
        asked.push(count);
        return oneStage(count);
      },
    });
    for (const count of [2, 3, 2, 3]) pipeline.run(step(count));
    expect(asked).toEqual([2, 3]);
  });

  it('runs again after a step that failed and was abandoned', () => {
    const stages = makeStages(2);
    const numLive = numLiveTensors();
    const pipeline = make({ stages, schedule: twoChunks });
    const failing = {
      ...step(3),
      onLoss: () => {
        throw new Error('no');
      },
    };
    expect(() => pipeline.run(failing)).toThrow('no');
    expect(() => pipeline.run(step(3))).toThrow(expect.objectContaining({ code: 'MTL_PIPELINE_STEP' }));
    pipeline.abandon();
    expect(numLiveTensors()).toBe(numLive);
    pipeline.run(step(3));
  });
});

describe('a pipeline that cannot be', () => {
  it.each([
    ['no chunk', [], 'MTL_PIPELINE_STAGES', 'a pipeline with no chunk'],
    ['a gap', [1], 'MTL_PIPELINE_STAGES', 'a pipeline with chunk 0 of 2 on 0 ranks'],
    ['a number that is none', [-1], 'MTL_STAGE', 'unknown chunk -1'],
  ] as const)('(%s) is refused', (_, chunks, code, message) => {
    const stages = new Map(chunks.map((chunk) => [chunk, new AffineStage({ chunk, numChunks: 2 })]));
    expect(() => make({ stages })).toThrow(expect.objectContaining({ code, message }));
  });

  it('(the head in the middle) is refused', () => {
    const stages = new Map([0, 1].map((chunk) => [chunk, new AffineStage({ chunk: 0, numChunks: 1 })]));
    const message = 'chunk 0 of 2 says that it is the first and the last';
    expect(() => make({ stages })).toThrow(expect.objectContaining({ code: 'MTL_STAGE', message }));
  });

  it('(a schedule of other chunks, or of other micro-batches) is refused', () => {
    expect(() => make({ schedule: twoChunks }).run(step(2))).toThrow(
      expect.objectContaining({
        code: 'MTL_PIPELINE_PLACEMENT',
        details: { placement: [0, 0], expected: [0] },
      }),
    );
    expect(() => make({ schedule: () => oneStage(3) }).run(step(2))).toThrow(
      expect.objectContaining({ code: 'MTL_PIPELINE_PLACEMENT' }),
    );
  });

  it('(a schedule that cannot run) is refused', () => {
    const broken = (count: number): PipelineSchedule => {
      const { actions, ...rest } = oneStage(count);
      return { ...rest, actions: actions.map((order) => order.toReversed()) };
    };
    expect(() => make({ schedule: broken }).run(step(2))).toThrow(
      expect.objectContaining({ code: 'MTL_SCHEDULE_INVALID' }),
    );
  });

  it('(boundary tensors that replicas cannot divide) is refused', () => {
    const replicas: ProcessGroup = Object.create(new SingleProcessGroup('tp'), { size: { value: 2 } });
    const pipeline = make({ stages: makeStages(2), schedule: twoChunks, replicas });
    expect(() => pipeline.run(step(2))).toThrow(
      expect.objectContaining({
        code: 'MTL_PIPELINE_REPLICAS',
        message: 'boundary tensors of shape [3, 1] cannot be divided over 2 ranks',
      }),
    );
  });

  it.each([
    ['nothing', () => undefined, 'chunk 0 returned nothing from F of micro-batch 0'],
    [
      'another dtype',
      () => Tensor.zeros({ shape: [3, 1], dtype: 'float32' }),
      'chunk 0, micro-batch 0: its forward result is float32 [3, 1]',
    ],
  ])('(a stage that returns %s) is refused and leaves nothing behind', (_, result, message) => {
    const numLive = numLiveTensors();
    const stages = makeStages(2);
    stages.get(0)!.forward = result;
    const pipeline = make({ stages, schedule: twoChunks });
    expect(() => pipeline.run(step(2))).toThrow(expect.objectContaining({ code: 'MTL_STAGE', message }));
    pipeline.abandon();
    expect(numLiveTensors()).toBe(numLive);
  });
});
