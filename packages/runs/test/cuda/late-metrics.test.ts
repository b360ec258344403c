import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { emulationCounts, hasEmulationCounts } from '@mtl/cuda-emulation/counts';
import { memoryStatistics, numLiveTensors } from '@mtl/kernels';
import { findGpu, openCuda } from '@mtl/kernels/internal';
import type { GptStage, StageBatch } from '@mtl/models';
import { type RunTrainingOptions, runTraining, type StepMetrics } from '@mtl/trainer';
import type { StopSignals } from '@mtl/trainer/stop-signals';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { onOneRank } from './on-one-rank.js';
import { tinyGpt as model, tinyBert } from './tiny-models.js';
import { tinyTrainer, tinyTraining } from './tiny-training.js';

const { problem, title } = findGpu();
const cuda = { model, device: 'cuda', numMicroBatches: 2, steps: 6 } as const;
const never = () => false;

/** Events in the order in which they happen: all work of a step is enqueued, a step is yielded. */
async function recordEvents(options: Partial<Parameters<typeof tinyTraining>[0]>) {
  const events: { readonly what: string; readonly waits: number; readonly copies: number }[] = [];
  const note = (what: string): void => {
    const { synchronizations, copiesToHost } = emulationCounts();
    events.push({ what, waits: synchronizations, copies: copiesToHost });
  };
  await tinyTraining<StageBatch, GptStage>({
    ...cuda,
    ...(options as object),
    onEnqueued: (iteration) => note(`enqueued ${iteration}`),
    onStep: ({ iteration }) => note(`yielded ${iteration}`),
  });
  return events;
}

describe.skipIf(problem !== undefined)(`metrics that are read one step late (${title})`, () => {
  beforeAll(() => void openCuda());

  it.skipIf(!hasEmulationCounts).each([
    ['as it is', {}],
    ['as graphs', { onGraphMessage: () => {} }],
    ['as a pipeline', { schedule: onOneRank('apart'), numMicroBatches: 4 }],
    [
      'as graphs of a pipeline',
      { schedule: onOneRank('apart'), numMicroBatches: 4, onGraphMessage: () => {} },
    ],
  ])('of a model %s wait for nothing until the next step is enqueued, and then once', async (_, how) => {
    // the fifth step waits for its metrics, since a decision follows it
    const events = await recordEvents({ ...how, steps: 7, waitsAfter: (iteration) => iteration === 5 });
    expect(events.map(({ what }) => what)).toEqual([
      'enqueued 1',
      'enqueued 2',
      'yielded 1',
      'enqueued 3',
      'yielded 2',
      'enqueued 4',
      'yielded 3',
      'enqueued 5',
      'yielded 4',
      'yielded 5',
      'enqueued 6',
      'enqueued 7',
      'yielded 6',
      'yielded 7',
    ]);
    const since = (of: 'waits' | 'copies', from: string, to: string): number => {
      const [first, last] = [from, to].map((name) => events.find(({ what }) => what === name)!);
      return last![of] - first![of];
    };
    // the first steps take memory from the driver and choose algorithms
    for (const next of [4, 5]) {
      expect(since('waits', `yielded ${next - 2}`, `enqueued ${next}`)).toBe(0);
      // the copy of this step is enqueued after this event, and the copy of the previous step before it
      expect(since('copies', `yielded ${next - 2}`, `enqueued ${next}`)).toBe(0);
      expect(since('waits', `enqueued ${next}`, `yielded ${next - 1}`)).toBe(1);
      expect(since('copies', `enqueued ${next}`, `yielded ${next - 1}`)).toBe(1);
    }
    expect(since('waits', 'yielded 4', 'yielded 5')).toBe(1);
    expect(since('waits', 'yielded 5', 'enqueued 7')).toBe(0);
  });

  it.each(['float32', 'bfloat16'] as const)(
    'equal the metrics of steps that wait, bit for bit, in %s',
    async (dtype) => {
      const live = numLiveTensors();
      for (const how of [{}, { onGraphMessage: () => {} }]) {
        const { bytesInUse } = memoryStatistics('cuda');
        const [steps, late]: [StepMetrics[], StepMetrics[]] = [[], []];
        await tinyTraining({ ...cuda, ...how, dtype, onStep: (step) => steps.push(step) });
        await tinyTraining({ ...cuda, ...how, dtype, waitsAfter: never, onStep: (step) => late.push(step) });
        const values = ({ stepMs: _, tokensPerSecond: __, modelTflops: ___, ...step }: StepMetrics) => step;
        expect(late.map(values)).toEqual(steps.map(values));
        expect(late.every(({ stepMs }) => stepMs > 0)).toBe(true);
        // dropout and data differ, so that metrics of another step would differ
        expect(new Set(late.map(({ loss }) => loss)).size).toBe(cuda.steps);
        expect(memoryStatistics('cuda').bytesInUse).toBe(bytesInUse);
      }
      expect(numLiveTensors()).toBe(live);
    },
  );

  it('of a BERT equal the metrics of steps that wait, bit for bit', async () => {
    const options = { ...cuda, model: tinyBert, steps: 3 };
    const [steps, late] = [
      await tinyTraining(options),
      await tinyTraining({ ...options, waitsAfter: never }),
    ];
    expect(late.losses).toEqual(steps.losses);
    expect(late.norms).toEqual(steps.norms);
  });

  it('are read at once where a dynamic loss scale depends on them', async () => {
    const order: string[] = [];
    await tinyTraining({
      ...cuda,
      dtype: 'float16',
      waitsAfter: never,
      onEnqueued: (iteration) => order.push(`enqueued ${iteration}`),
      onStep: ({ iteration }) => order.push(`yielded ${iteration}`),
    });
    expect(order.slice(0, 4)).toEqual(['enqueued 1', 'yielded 1', 'enqueued 2', 'yielded 2']);
  });

  it('add up to the time that all steps take', async () => {
    const errors: number[] = [];
    do {
      let [milliseconds, start, end] = [0, Number.POSITIVE_INFINITY, 0];
      await tinyTraining({
        ...cuda,
        waitsAfter: never,
        countPositions: () => {
          start = Math.min(start, performance.now());
          return model.sequenceLength;
        },
        onStep: ({ stepMs }) => {
          milliseconds += stepMs;
          end = performance.now();
        },
      });
      errors.push(Math.abs(milliseconds / (end - start) - 1));
      // repeats the comparison of the device's clock with the host's clock, since a busy machine may stop
      // between two readings; steps that are left out or counted twice would be visible in every repetition
    } while (errors.at(-1)! >= 0.1 && errors.length < 5);
    expect(Math.min(...errors), `${errors}`).toBeLessThan(0.1);
  });

  it('name the step whose gradients are not finite, and yield those before it', async () => {
    const yielded: number[] = [];
    const training = tinyTraining({
      ...cuda,
      waitsAfter: never,
      // the weights are NaN after the third update, so the fourth step is the first whose loss is NaN
      learningRate: (numUpdates) => (numUpdates === 2 ? Number.NaN : 0.01),
      onStep: ({ iteration }) => yielded.push(iteration),
    });
    await expect(training).rejects.toMatchObject({
      code: 'MTL_NOT_FINITE',
      message: 'iteration 4: loss NaN, gradient norm NaN; it changed no parameter',
    });
    expect(yielded).toEqual([1, 2, 3]);
  });

  it('are yielded of a step after which the next one fails', async () => {
    const yielded: number[] = [];
    const failing = {
      ...model,
      makeBatch: (number: number, length: number): StageBatch => {
        if (number === 7) throw new Error('of the data');
        return model.makeBatch(number, length);
      },
    };
    const training = tinyTraining({
      ...cuda,
      model: failing,
      waitsAfter: never,
      onStep: ({ iteration }) => yielded.push(iteration),
    });
    await expect(training).rejects.toThrow('of the data');
    expect(yielded).toEqual([1, 2, 3]);
  });

  it('refuse evaluations and steps where a loop was left with a step under way', async () => {
    const { trainer, batches, dispose } = tinyTrainer(cuda);
    for await (const { iteration } of trainer.steps({ waitsAfter: never })) if (iteration === 2) break;
    expect(trainer.isStepUnderWay).toBe(true);
    const refused = { code: 'MTL_STEP_UNDER_WAY' };
    await expect(trainer.evaluate(batches(), 1)).rejects.toMatchObject(refused);
    await expect(trainer.steps().next()).rejects.toMatchObject(refused);
    dispose();
  });
});

/**
 * Trains with reports, evaluations and checkpoints; returns the reports in order, and the bytes of the
 * checkpoints.
 */
async function run(
  options: Partial<RunTrainingOptions<StageBatch>> & {
    readonly isLate: boolean;
    readonly saveInterval?: number;
  },
) {
  const { isLate, saveInterval, ...others } = options;
  const directory = mkdtempSync(join(tmpdir(), 'mtl-late-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const { trainer, dispose, batches, ...rest } = tinyTrainer({ ...cuda, steps: 9 });
  if (!isLate) {
    const { steps } = trainer;
    trainer.steps = ({ isOver = never } = {}) => steps.call(trainer, { isOver });
  }
  const told: string[] = [];
  try {
    const result = await runTraining({
      ...rest,
      trainer,
      reporters: [
        {
          step: ({ iteration, loss, consumedSamples }) =>
            told.push(`${iteration} ${consumedSamples} ${loss}`),
          validation: ({ iteration, loss }) => told.push(`validation ${iteration} ${loss}`),
          message: (text) => told.push(text.replace(directory, '')),
        },
        ...(others.reporters ?? []),
      ],
      save: { directory, interval: saveInterval, keepLast: undefined, configuration: {} },
      evaluation: { interval: 4, numMicroBatches: 2, open: batches },
      ...(others.signals === undefined ? {} : { signals: others.signals }),
      exitInterval: others.exitInterval,
    });
    const saved = readdirSync(directory).filter((name) => name.startsWith('iter_'));
    const bytes = saved.map((name) => {
      const files = readdirSync(join(directory, name)).filter((file) => file.endsWith('.safetensors'));
      return files.map((file) => readFileSync(join(directory, name, file)).toString('base64'));
    });
    return { reason: result.reason, told, saved, bytes, iteration: trainer.progress.iteration };
  } finally {
    dispose();
  }
}

describe.skipIf(problem !== undefined)(`a run that reads metrics one step late (${title})`, () => {
  beforeAll(() => void openCuda());

  it('tells, evaluates and saves what a run does that waits after every step', async () => {
    const [waiting, late] = [
      await run({ isLate: false, saveInterval: 3 }),
      await run({ isLate: true, saveInterval: 3 }),
    ];
    expect(late).toEqual(waiting);
    expect(late.saved).toEqual(['iter_0000003', 'iter_0000006', 'iter_0000009']);
    expect(late.bytes.flat().length).toBeGreaterThan(0);
    expect(late.told.filter((line) => line.startsWith('validation'))).toHaveLength(3);
  });

  it('ends after a step of its exit interval', async () => {
    const { reason, saved } = await run({ isLate: true, exitInterval: 5 });
    expect(reason).toBe('exit-interval');
    expect(saved).toEqual(['iter_0000005']);
  });

  it('ends on a signal after the step that is under way, tells it and saves it', async () => {
    const signals: { received: StopSignals['received'] } = { received: undefined };
    const step = ({ iteration }: StepMetrics): void => {
      if (iteration === 2) signals.received = 'SIGTERM';
    };
    const stopped = await run({ isLate: true, signals, reporters: [{ step }] });
    const whole = await run({ isLate: true, saveInterval: 3 });
    expect(stopped).toMatchObject({ reason: 'SIGTERM', saved: ['iter_0000003'], iteration: 3 });
    expect(stopped.told).toEqual(whole.told.slice(0, 4));
    expect(stopped.bytes[0]).toEqual(whole.bytes[0]);
  });
});
