import { hasEmulationCounts } from '@mtl/cuda-emulation/counts';
import { limitMemory, memoryStatistics, numLiveTensors, supportsGraphs, Tensor } from '@mtl/kernels';
import { findGpu, openCuda } from '@mtl/kernels/internal';
import type { GptStage, StageBatch } from '@mtl/models';
import { GraphedStage, type Stage } from '@mtl/pipeline';
import { beforeAll, describe, expect, it } from 'vitest';
import { onOneRank } from './on-one-rank.js';
import {
  type TinyModel,
  tinyAdapters,
  tinyBert,
  tinyGpt,
  tinyGptWithoutDropout,
  tinyTask,
} from './tiny-models.js';
import { type TinyTraining, type TinyTrainingOptions, tinyTraining } from './tiny-training.js';

const { problem, title } = findGpu();
const numMicroBatches = 3;
const used = 'CUDA graphs: passes over micro-batches are launched as graphs from here on';
const cuda = { model: tinyGpt, device: 'cuda', numMicroBatches } as const;

/** A run with graphs, and its messages. */
async function withGraphs<Batch, Chunk extends Stage<Batch>>(
  options: Omit<TinyTrainingOptions<Batch, Chunk>, 'onGraphMessage'>,
) {
  const said: string[] = [];
  return { ...(await tinyTraining({ ...options, onGraphMessage: (text) => said.push(text) })), said };
}

function expectSame(graphed: Awaited<ReturnType<typeof withGraphs>>, plain: TinyTraining): void {
  expect(graphed.losses).toEqual(plain.losses);
  expect(graphed.norms).toEqual(plain.norms);
  expect(graphed.evaluated).toEqual(plain.evaluated);
  // dropout and data differ from micro-batch to micro-batch: replayed graphs with fixed values would repeat
  expect(new Set(graphed.losses).size).toBe(graphed.losses.length);
  expect(graphed.said).toEqual([used]);
}

/** Members that replace a stage's own. */
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
 * Trains without graphs, and with graphs that the device refuses. Both must have the same results and the
 * same memory in use when the last pass begins.
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

/** Waits for the device, and returns the reason of the refusal. */
function waited(stage: GptStage): { readonly problem: unknown } {
  try {
    stage.parameters[0]!.data.read();
    return { problem: undefined };
  } catch (error) {
    return { problem: error };
  }
}

/** Fails for lack of memory, as a pass may that needs more than the previous one. */
function askForTooMuch(): void {
  limitMemory('cuda', 1);
  try {
    // larger than the free parts of segments
    Tensor.empty({ shape: [64 << 20], dtype: 'float32', device: 'cuda' }).dispose();
  } finally {
    limitMemory('cuda', 0);
  }
}

describe.skipIf(problem !== undefined)(`a training run whose passes are recorded (${title})`, () => {
  beforeAll(() => void openCuda());

  it.each(['float32', 'bfloat16', 'float16'] as const)(
    'in %s has the same losses, norms and evaluations to the bit',
    async (dtype) => {
      const [live, { bytesInUse }] = [numLiveTensors(), memoryStatistics('cuda')];
      const options = { ...cuda, dtype, numEvaluated: 2 };
      const [plain, graphed] = [await tinyTraining(options), await withGraphs(options)];
      expectSame(graphed, plain);
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
        // the same number as without graphs
        synchronizations: 1,
        copiesToHost: 1,
        copiesToDevice: 7 * numMicroBatches,
        memoryCalls: 0,
      });
      // a micro-batch takes seven copies, each in two parts, two graphs and the sum of its losses
      const perMicroBatch = 7 * 2 + 2 + 1;
      const ofUpdate = after.enqueued - numMicroBatches * perMicroBatch;
      // norm, scalars, update, and the copy of the metrics
      expect(ofUpdate).toBeGreaterThan(0);
      expect(ofUpdate).toBeLessThan(10);
      expect(before.graphLaunches).toBe(0);
      expect(before.enqueued).toBeGreaterThan(5 * after.enqueued);
    },
  );

  it('records the shapes that come again, and launches one by one what comes once', async () => {
    // lengths of micro-batches: 16 in every step, 8 in every second step, and one length of 9 to 13 in each
    // step
    const countPositions = (microBatch: number): number => {
      const step = Math.floor(microBatch / numMicroBatches);
      return [16, step % 2 === 0 ? 16 : 8, 9 + step][microBatch % numMicroBatches]!;
    };
    const options = { ...cuda, countPositions, steps: 5 };
    const [plain, graphed] = [await tinyTraining(options), await withGraphs(options)];
    expect(graphed.losses).toEqual(plain.losses);
    expect(graphed.norms).toEqual(plain.norms);
    expect(graphed.said).toEqual([used]);
    const launches = graphed.counts.map(({ graphLaunches }) => graphLaunches);
    // launched: each micro-batch of length 16 except the first, and the one of length 8 in the fourth step,
    // which records it
    if (hasEmulationCounts) expect(launches).toEqual([2, 2, 4, 4, 4]);
  });

  async function expectSameResults<Batch, Chunk extends Stage<Batch>>(
    model: TinyModel<Batch, Chunk>,
    dtype: 'float32' | 'bfloat16',
  ): Promise<void> {
    const options = { ...cuda, model, dtype, steps: 3, numEvaluated: 1 };
    const [plain, graphed] = [await tinyTraining(options), await withGraphs(options)];
    expectSame(graphed, plain);
    const launches = graphed.counts.map(({ graphLaunches }) => graphLaunches);
    if (hasEmulationCounts) expect(launches).toEqual([4, 6, 6]);
  }

  it('without dropout has the same losses and norms to the bit', () =>
    expectSameResults(tinyGptWithoutDropout, 'bfloat16'));

  it('of a BERT has the same losses and norms to the bit, however long its samples are', () =>
    expectSameResults(tinyBert, 'bfloat16'));

  it('of a fine-tuning has the same losses and norms to the bit', () =>
    expectSameResults(tinyTask, 'float32'));

  it('of adapters of a Llama has the same losses and norms to the bit', () =>
    expectSameResults(tinyAdapters, 'bfloat16'));

  it.each(['together', 'apart', 'in turn'] as const)(
    'in chunks, two and three micro-batches in flight, the halves of backward %s, has the same losses to the bit',
    async (halves) => {
      const [live, { bytesInUse }] = [numLiveTensors(), memoryStatistics('cuda')];
      const schedule = onOneRank(halves);
      const options = { ...cuda, schedule, numMicroBatches: 4, steps: 3, numEvaluated: 2 };
      const [plain, graphed] = [await tinyTraining(options), await withGraphs(options)];
      expect(graphed.losses).toEqual(plain.losses);
      expect(graphed.norms).toEqual(plain.norms);
      expect(graphed.evaluated).toEqual(plain.evaluated);
      expect(graphed.said).toEqual([used, used]); // each chunk sends a message
      const launches = graphed.counts.at(-1)?.graphLaunches;
      // passes of two chunks over four micro-batches
      if (hasEmulationCounts && halves === 'together') expect(launches).toBe(2 * 2 * 4);
      if (hasEmulationCounts && halves === 'apart') expect(launches).toBe(2 * 3 * 4);
      // slots are made in the first step, graphs in the first two: memory does not grow after that
      expect(graphed.bytesInUse.at(-1)).toBe(graphed.bytesInUse.at(-2));
      expect(numLiveTensors()).toBe(live);
      expect(memoryStatistics('cuda').bytesInUse).toBe(bytesInUse);
    },
  );

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

  it('goes on without graphs where a pass of one chunk is refused while others are in flight', async () => {
    const options = { ...cuda, schedule: onOneRank('apart'), numMicroBatches: 4, steps: 2 };
    const plain = await tinyTraining(options);
    for (const pass of ['forward', 'backwardInput', 'backwardWeight'] as const) {
      let numCalls = 0;
      const wrap = (stage: GptStage): Stage<StageBatch> =>
        changed(stage, {
          [pass]: (call: never) => {
            const result = stage[pass](call);
            numCalls += stage.isLast ? 1 : 0;
            // by then, a pass is recorded in another slot
            const { problem: refused } = numCalls === 3 ? waited(stage) : { problem: undefined };
            if (refused === undefined) return result;
            result?.dispose();
            throw refused;
          },
        });
      const graphed = await withGraphs({ ...options, wrap });
      expect(graphed.losses, pass).toEqual(plain.losses);
      expect(graphed.norms, pass).toEqual(plain.norms);
      const why = expect.stringContaining('a copy to the host cannot be part of a graph');
      expect(graphed.said, pass).toEqual(expect.arrayContaining([used, why]));
    }
  });

  it('of a model that says nothing of its inputs is refused', async () => {
    const wrap = (stage: GptStage): Stage<StageBatch> => changed(stage, { load: undefined });
    await expect(withGraphs({ ...cuda, wrap })).rejects.toThrow(
      expect.objectContaining({ code: 'MTL_CUDA_GRAPHS', remedy: 'leave --cuda-graphs out' }),
    );
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
    expect(supportsGraphs('meta')).toBe(false);
    const stage = { isFirst: true, isLast: true, load: () => {} } as unknown as Stage<StageBatch>;
    expect(() => new GraphedStage({ stage, device: 'meta', onMessage: () => {} })).toThrow('no graphs');
  });
});
