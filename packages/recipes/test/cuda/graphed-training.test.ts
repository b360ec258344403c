import {
  findGpu,
  limitMemory,
  memoryStatistics,
  numLiveTensors,
  openCuda,
  supportsGraphs,
  Tensor,
} from '@mtl/kernels';
import type { GptStage, StageBatch } from '@mtl/models';
import { GraphedStage, type Stage } from '@mtl/pipeline';
import { hasEmulationCounts } from '@mtl/tooling/emulation-counts';
import { beforeAll, describe, expect, it } from 'vitest';
import { type TinyTrainingOptions, tinyTraining } from './tiny-training.js';

const { problem, title } = findGpu();
const numMicroBatches = 3;
const used = 'CUDA graphs: passes over micro-batches are launched as graphs from here on';
const cuda = { device: 'cuda', numMicroBatches } as const;

/** With graphs, and what was said about them. */
async function withGraphs(options: Omit<TinyTrainingOptions, 'onGraphMessage'>) {
  const said: string[] = [];
  return { ...(await tinyTraining({ ...options, onGraphMessage: (text) => said.push(text) })), said };
}

/** A stage with something of its own. */
type Changes = { readonly [Name in keyof Stage<StageBatch>]?: Stage<StageBatch>[Name] | undefined };
const changed = (stage: Stage<StageBatch>, changes: Changes): Stage<StageBatch> =>
  new Proxy(stage, {
    get: (target, name) => {
      if (name in changes) return changes[name as keyof typeof changes];
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  }) as unknown as Stage<StageBatch>;

type Wrap = (stage: GptStage) => Stage<StageBatch>;
const same: Wrap = (stage) => stage;

/**
 * Trains without and with graphs that the device refuses: results must be the same, and what memory is in use
 * when the last pass begins.
 */
async function expectRefusal(wrap: Wrap, why: string): Promise<void> {
  const noting =
    (bytes: number[], inner: Wrap): Wrap =>
    (stage) => {
      const wrapped = inner(stage);
      const forward: typeof wrapped.forward = (call) => {
        bytes.push(memoryStatistics('cuda').bytesInUse);
        return wrapped.forward(call);
      };
      return changed(wrapped, { forward });
    };
  const [before, after]: [number[], number[]] = [[], []];
  const live = numLiveTensors();
  const plain = await tinyTraining({ ...cuda, wrap: noting(before, same) });
  const graphed = await withGraphs({ ...cuda, wrap: noting(after, wrap) });
  expect(graphed.losses).toEqual(plain.losses);
  expect(graphed.norms).toEqual(plain.norms);
  expect(graphed.said).toEqual([expect.stringContaining(why)]);
  expect(graphed.counts.at(-1)?.graphLaunches ?? 0).toBe(0);
  expect(after.at(-1)).toBe(before.at(-1));
  expect(numLiveTensors()).toBe(live);
}

/** Fails for want of memory, as a pass may that holds more than the one before. */
function askForTooMuch(): void {
  limitMemory('cuda', 1);
  try {
    // larger than what segments have left over
    Tensor.empty({ shape: [64 << 20], dtype: 'float32', device: 'cuda' }).dispose();
  } finally {
    limitMemory('cuda', 0);
  }
}

describe.skipIf(problem !== undefined)(`a training whose passes are recorded (${title})`, () => {
  beforeAll(() => void openCuda());

  it.each(['float32', 'bfloat16', 'float16'] as const)(
    'in %s has the same losses, norms and evaluations to the bit',
    async (dtype) => {
      const [live, { bytesInUse }] = [numLiveTensors(), memoryStatistics('cuda')];
      const options = { ...cuda, dtype, numEvaluated: 2 };
      const [plain, graphed] = [await tinyTraining(options), await withGraphs(options)];
      expect(graphed.losses).toEqual(plain.losses);
      expect(graphed.norms).toEqual(plain.norms);
      expect(graphed.evaluated).toEqual(plain.evaluated);
      // dropout and data differ from micro-batch to micro-batch: recorded ones alone would repeat themselves
      expect(new Set(graphed.losses).size).toBe(graphed.losses.length);
      expect(graphed.said).toEqual([used]);
      expect(numLiveTensors()).toBe(live);
      expect(memoryStatistics('cuda').bytesInUse).toBe(bytesInUse);
    },
  );

  it.skipIf(!hasEmulationCounts)(
    'asks for two launches a micro-batch instead of every operation',
    async () => {
      const [plain, graphed] = [await tinyTraining(cuda), await withGraphs(cuda)];
      const [before, after] = [plain.counts.at(-1)!, graphed.counts.at(-1)!];
      expect(graphed.counts.at(-2)).toEqual(after);
      expect(after).toMatchObject({
        graphLaunches: 2 * numMicroBatches,
        // as without graphs
        ...{ synchronizations: 1, copiesToHost: 1, copiesToDevice: 5 * numMicroBatches, memoryCalls: 0 },
      });
      // of a micro-batch: five copies, each in two parts, two graphs and the sum of its losses
      const perMicroBatch = 5 * 2 + 2 + 1;
      const ofUpdate = after.enqueued - numMicroBatches * perMicroBatch;
      // norm, scalars, update, and the copy of the figures
      expect(ofUpdate).toBeGreaterThan(0);
      expect(ofUpdate).toBeLessThan(10);
      expect(before.graphLaunches).toBe(0);
      expect(before.enqueued).toBeGreaterThan(5 * after.enqueued);
    },
  );

  it('launches micro-batches of another shape one by one, and says so once', async () => {
    // the recorded shape before, between and after others
    const lengthOf = (microBatch: number): number => (microBatch % 4 === 2 ? 8 + (microBatch % 3) : 16);
    const options = { ...cuda, lengthOf, steps: 5 };
    const [plain, graphed] = [await tinyTraining(options), await withGraphs(options)];
    expect(graphed.losses).toEqual(plain.losses);
    expect(graphed.norms).toEqual(plain.norms);
    expect(graphed.said).toEqual([used, expect.stringContaining('differ in shape')]);
    const launches = graphed.counts.map(({ graphLaunches }) => graphLaunches);
    if (hasEmulationCounts) expect(launches).toEqual([2, 6, 4, 4, 4]);
  });

  it('goes on without graphs where a pass waits for the device, and says what did', async () => {
    for (const pass of ['forward', 'backwardInput'] as const) {
      const wrap = (stage: GptStage): Stage<StageBatch> =>
        changed(stage, {
          [pass]: (call: never) => {
            const result = stage[pass](call);
            stage.parameters[0]!.data.read();
            return result;
          },
        });
      await expectRefusal(wrap, 'a copy to the host cannot be part of a graph');
    }
  });

  it('goes on without graphs where memory runs short while a pass is recorded', async () => {
    for (const pass of ['forward', 'backwardInput'] as const) {
      let numCalls = 0;
      const wrap = (stage: GptStage): Stage<StageBatch> =>
        changed(stage, {
          [pass]: (call: never) => {
            const result = stage[pass](call);
            numCalls += 1;
            if (numCalls === 2) askForTooMuch();
            return result;
          },
        });
      await expectRefusal(wrap, 'the device has no ');
    }
  });

  it('of a model that says nothing of its inputs is not recorded', async () => {
    const wrap = (stage: GptStage): Stage<StageBatch> => changed(stage, { load: undefined });
    await expectRefusal(wrap, 'differ in more than what is in tensors');
  });

  it('ends with an error of the model as it would without graphs, and leaves the device as it was', async () => {
    let numForwards = 0;
    const wrap = (stage: GptStage): Stage<StageBatch> =>
      changed(stage, {
        forward: (call) => {
          numForwards += 1;
          if (numForwards === 2) throw new Error('of the model');
          return stage.forward(call);
        },
      });
    await expect(withGraphs({ ...cuda, wrap })).rejects.toThrow('of the model');
    expect((await withGraphs(cuda)).losses).toEqual((await tinyTraining(cuda)).losses);
  });

  it('is for devices with graphs alone', () => {
    expect(supportsGraphs('cuda')).toBe(true);
    expect(supportsGraphs('cpu')).toBe(false);
    const stage = { isFirst: true, isLast: true } as unknown as Stage<StageBatch>;
    expect(() => new GraphedStage({ stage, device: 'cpu', onMessage: () => {} })).toThrow('no graphs');
  });
});
