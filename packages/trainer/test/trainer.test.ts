import { mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findCheckpoint, loadCheckpoint } from '@mtl/checkpoint';
import type { ProcessGroup } from '@mtl/comm';
import type { MtlError } from '@mtl/errors';
import { numLiveTensors, type Tensor } from '@mtl/kernels';
import {
  AdamwOptimizer,
  createStores,
  LossScaler,
  type LossScalerOptions,
  type ModelOptimizer,
  NumMicroBatches,
} from '@mtl/optimizer';
import { Pipeline } from '@mtl/pipeline';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import {
  DeviceClock,
  type LossKind,
  optimizerTensors,
  readTrainingState,
  runTraining,
  type StepMetrics,
  Trainer,
  type TrainerExtension,
  type TrainingProgress,
  weightTensors,
} from '../src/index.js';
import { Ranks } from '../src/steps/ranks.js';
import { StopSignals } from '../src/stop-signals.js';
import { type BigramBatch, BigramStage, onePiece } from './bigram-stage.js';

const size = 8;
let before: number;
beforeEach(() => {
  before = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(before));

/** Returns sample n: a token and its successor in a fixed permutation, two tokens a sample. */
function makeBatch(sample: number): BigramBatch {
  const tokens = [(sample * 3) % size, (sample * 3 + 1) % size];
  return { tokens, labels: tokens.map((token) => (token * 5 + 2) % size) };
}

async function* batches(from = 0, to = Number.POSITIVE_INFINITY): AsyncGenerator<BigramBatch> {
  for (let sample = from; sample < to; sample++) yield makeBatch(sample);
}

interface BuildOptions {
  trainIterations?: number;
  scaler?: LossScalerOptions;
  progress?: TrainingProgress;
  batches?: AsyncIterator<BigramBatch>;
  iterationsToSkip?: readonly number[];
  rate?: (position: { numUpdates: number; consumedSamples: number }) => number;
  /** The learning rate of the head's weights. */
  decoupledRate?: BuildOptions['rate'];
  losses?: readonly LossKind<BigramBatch>[];
  extensions?: readonly TrainerExtension[];
}

/** Returns the weights of a model from `build`. */
const readWeights = ({ stores }: ModelOptimizer): Float32Array =>
  stores[0]!.ranges[0]!.parameter.data.read<'float32'>();

function build(options: BuildOptions = {}) {
  const stage = new BigramStage(size);
  const stores = createStores([stage.head], { device: 'cpu', dtype: 'float32', seed: 1 });
  const optimizer = new AdamwOptimizer(stores, {
    isDecoupled: options.decoupledRate && (() => true),
    beta1: 0.9,
    beta2: 0.99,
    epsilon: 1e-8,
    weightDecay: 0,
    clipGrad: 0,
  });
  const lossScaler = new LossScaler(options.scaler ?? { kind: 'constant', scale: 1 });
  const pipeline = onePiece(stage);
  const dispose = (): void => {
    optimizer.dispose();
  };
  const newTrainer = () =>
    new Trainer<BigramBatch>({
      pipeline,
      optimizer,
      lossScaler,
      device: 'cpu',
      sequenceLength: 2,
      flopsPerSample: 100,
      learningRate: options.rate ?? (() => 0.05),
      decoupledLearningRate: options.decoupledRate,
      microBatches: new NumMicroBatches({ globalBatchSize: 4, microBatchSize: 1, numShares: 1 }),
      batches: options.batches ?? batches(options.progress?.consumedSamples),
      losses: options.losses ?? [{ name: 'lm_loss', per: 'token', count: ({ tokens }) => tokens.length }],
      trainIterations: options.trainIterations ?? 10,
      iterationsToSkip: new Set(options.iterationsToSkip),
      extensions: options.extensions ?? [],
      ...(options.progress === undefined ? {} : { progress: options.progress }),
    });
  try {
    return { stage, optimizer, lossScaler, trainer: newTrainer(), dispose };
  } catch (error) {
    dispose();
    throw error;
  }
}

async function all(trainer: Trainer<BigramBatch>): Promise<StepMetrics[]> {
  const steps: StepMetrics[] = [];
  for await (const step of trainer) steps.push(step);
  return steps;
}

describe('Trainer', () => {
  it('learns, counts and reports', async () => {
    const { trainer, dispose } = build({ trainIterations: 30 });
    const steps = await all(trainer);
    expect(steps.length).toBe(30);
    // a table of 8 tokens starts at about ln 8
    expect(steps[0]!.loss).toBeGreaterThan(1.9);
    expect(steps.at(-1)!.loss).toBeLessThan(1);
    expect(steps[2]).toMatchObject({
      iteration: 3,
      consumedSamples: 12,
      consumedTokens: 24,
      globalBatchSize: 4,
    });
    expect(steps.every(({ stepMs, tokensPerSecond }) => stepMs > 0 && tokensPerSecond > 0)).toBe(true);
    expect(trainer.isDone).toBe(true);
    dispose();
  });

  it('needs only what has no default', async () => {
    const { stage, optimizer, dispose } = build();
    const trainer = new Trainer<BigramBatch>({
      pipeline: new Pipeline({ stages: new Map([[0, stage]]) }),
      optimizer,
      learningRate: 0.05,
      batches: batches(),
      losses: [{ name: 'lm_loss', per: 'token', count: ({ tokens }) => tokens.length }],
      trainIterations: 3,
    });
    const steps = await all(trainer);
    expect(steps.at(-1)).toMatchObject({
      iteration: 3,
      consumedSamples: 3,
      consumedTokens: 3,
      learningRate: 0.05,
      lossScale: 1,
      modelTflops: 0,
    });
    expect(new Set(steps.map(({ loss }) => loss)).size).toBe(3);
    dispose();
  });

  it('leaves steps out: their samples are consumed, and every other step has the same bits', async () => {
    // batches of 4 samples, without the batches of steps 2, 3 and 6
    async function* others(): AsyncGenerator<BigramBatch> {
      yield* batches(0, 4);
      yield* batches(12, 20);
      yield* batches(24);
    }
    const rate = ({ numUpdates }: { numUpdates: number }): number => 0.05 / (1 + numUpdates);
    const expected = build({ trainIterations: 5, batches: others(), rate });
    const skipping = build({ trainIterations: 8, iterationsToSkip: [2, 3, 6], rate });
    const [wanted, steps] = [await all(expected.trainer), await all(skipping.trainer)];
    expect(steps.map(({ iteration, consumedSamples }) => [iteration, consumedSamples])).toEqual(
      Array.from({ length: 8 }, (_, at) => [at + 1, 4 * (at + 1)]),
    );
    const leftOut = steps.filter(({ skipped }) => skipped);
    expect(leftOut.map(({ iteration }) => iteration)).toEqual([2, 3, 6]);
    for (const { loss, gradNorm, isLeftOut } of leftOut) {
      expect([loss, gradNorm, isLeftOut]).toEqual([Number.NaN, Number.NaN, true]);
    }
    const figures = (of: readonly StepMetrics[]) =>
      of.flatMap((step) => (step.skipped ? [] : [[step.loss, step.gradNorm, step.learningRate]]));
    expect(figures(steps)).toEqual(figures(wanted));
    expect(skipping.optimizer.numSteps).toBe(5);
    expect(skipping.stage.head.data.toArray()).toEqual(expected.stage.head.data.toArray());
    for (const { dispose } of [expected, skipping]) dispose();
  });

  it('evaluates without training', async () => {
    const { trainer, optimizer, dispose } = build();
    const first = await trainer.evaluate(batches(), 8);
    expect(await trainer.evaluate(batches(), 8)).toEqual(first);
    expect(optimizer.numSteps).toBe(0);
    await expect(trainer.evaluate(batches(0, 0), 8)).rejects.toMatchObject({ code: 'MTL_NO_DATA' });
    dispose();
  });

  it.each([-100, size, 1_000_000_000])(
    'names the step that has the label %d, and saves none from it on',
    async (label) => {
      const directory = mkdtempSync(join(tmpdir(), 'mtl-wrong-label-'));
      onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
      async function* wrong(): AsyncGenerator<BigramBatch> {
        for (let sample = 0; ; sample++) {
          const batch = makeBatch(sample);
          yield sample === 10 ? { ...batch, labels: [batch.labels[0]!, label] } : batch;
        }
      }
      const built = build({ batches: wrong() });
      const save = { directory, interval: 1, keepLast: 1, configuration: {} };
      await expect(runTraining({ ...built, reporters: [], save })).rejects.toMatchObject({
        code: 'MTL_INDEX',
        message: `iteration 3: cross_entropy_backward: labels[1] is ${label}, expected 0 to 7`,
      });
      expect(readdirSync(directory)).toContain('iter_0000002');
      expect(readdirSync(directory)).not.toContain('iter_0000003');
      await expect(built.trainer.evaluate(wrong(), 11)).rejects.toThrow(
        /^evaluation after iteration 2: cross_entropy/,
      );
      built.dispose();
      // the stage of these tests keeps the outputs of a failed pass
      before = numLiveTensors();
    },
  );

  it('ends on all ranks where another one has read an index out of range', async () => {
    const { trainer, optimizer, dispose } = build();
    // the error of another rank's device when it is read: the first number of the second collective
    let calls = 0;
    const allReduce = (tensor: Tensor) => {
      const values = tensor.read<'float64'>();
      if (++calls === 2) tensor.write(Float64Array.of(1, ...values.subarray(1)));
      return { wait: () => {} };
    };
    const world = { allReduce, rank: 0, size: 2 } as unknown as ProcessGroup;
    const groups = { ...optimizer.groups, world };
    const ranks = new Ranks({ groups });
    for (const name of ['rank', 'size', 'sum'] as const) {
      const value = name === 'sum' ? (values: readonly number[]) => ranks.sum(values) : ranks[name];
      Object.defineProperty(trainer.ranks, name, { value });
    }
    await expect(all(trainer)).rejects.toMatchObject({
      name: 'TrainingError',
      code: 'MTL_INDEX',
      message: 'iteration 1: another rank has read an index out of range',
    });
    expect(trainer.progress.iteration).toBe(0);
    dispose();
  });

  it('ends when the data end, between two steps', async () => {
    const { trainer, dispose } = build({ batches: batches(0, 10) });
    expect((await all(trainer)).length).toBe(2);
    expect(trainer.isDone).toBe(false);
    dispose();
  });

  it('gives the schedule applied updates and consumed samples', async () => {
    const seen: unknown[] = [];
    const { trainer, dispose } = build({
      trainIterations: 3,
      rate: (position) => {
        seen.push(position);
        return 0.01;
      },
    });
    await all(trainer);
    expect(seen).toEqual([
      { numUpdates: 0, consumedSamples: 0 },
      { numUpdates: 1, consumedSamples: 4 },
      { numUpdates: 2, consumedSamples: 8 },
    ]);
    dispose();
  });

  it('lets a clock of the device measure passes, the same as without one', async () => {
    let numPasses = 0;
    const measure = (task: () => void) => {
      task();
      numPasses += 1;
      return { read: () => ({ computeMs: 1, waitedMs: 0 }) };
    };
    const deviceClock = new DeviceClock({ waits: { measure } });
    const aroundPasses: TrainerExtension['aroundPasses'] = (...of) => deviceClock.passes(...of);
    const [expected, built] = [build(), build({ extensions: [{ name: 'clock', aroundPasses }] })];
    const collectLosses = async ({ trainer }: typeof built): Promise<number[]> => {
      const losses: number[] = [];
      for await (const { loss, iteration } of trainer) {
        losses.push(loss);
        deviceClock.step(iteration);
        if (iteration === 4 && deviceClock.hasTimes) deviceClock.take();
      }
      return losses;
    };
    expect(await collectLosses(expected)).toEqual(await collectLosses(built));
    expect(numPasses).toBe(2);
    for (const { dispose } of [expected, built]) dispose();
  });

  it('gives decoupled parameters a rate of their own, and reports both', async () => {
    const rate = ({ numUpdates }: { numUpdates: number }): number => 0.05 / (1 + numUpdates);
    const [expected, built] = [build({ rate }), build({ rate: () => 0.7, decoupledRate: rate })];
    const [wanted, steps] = [await all(expected.trainer), await all(built.trainer)];
    expect(steps.map(({ loss }) => loss)).toEqual(wanted.map(({ loss }) => loss));
    expect(built.stage.head.data.toArray()).toEqual(expected.stage.head.data.toArray());
    expect(steps[3]).toMatchObject({ learningRate: 0.7, decoupledLearningRate: 0.05 / 4 });
    expect(wanted[3]).not.toHaveProperty('decoupledLearningRate');
    for (const { dispose } of [expected, built]) dispose();
  });

  it('backs a dynamic loss scale off on overflow, skips the update, and goes on', async () => {
    // squares of gradients of 2^64 and more leave the range of float32
    const dynamic = {
      kind: 'dynamic',
      initialScale: 2 ** 70,
      minScale: 1,
      growthInterval: 100,
      hysteresis: 1,
    } as const;
    const { trainer, optimizer, dispose } = build({ trainIterations: 12, scaler: dynamic });
    const steps = await all(trainer);
    const skipped = steps.filter((step) => step.skipped).length;
    expect(skipped).toBeGreaterThan(0);
    expect(skipped).toBeLessThan(12);
    expect(optimizer.numSteps).toBe(12 - skipped);
    expect(steps[skipped]!.lossScale).toBe(2 ** (70 - skipped));
    dispose();
  });

  it('ends with one error when a gradient is not finite and no scale can be blamed', async () => {
    const { trainer, stage, optimizer, dispose } = build({ rate: () => 2950 / 3 });
    stage.boost = Number.NaN;
    await expect(all(trainer)).rejects.toMatchObject({
      code: 'MTL_NOT_FINITE',
      exitCode: 1,
      remedy: expect.stringContaining('--lr (it was 983.3)'),
    });
    expect([...readWeights(optimizer)].every(Number.isFinite)).toBe(true);
    dispose();
  });
});

describe('losses of several kinds', () => {
  const losses: readonly LossKind<BigramBatch>[] = [
    { name: 'token_loss', per: 'token', count: ({ tokens }) => tokens.length - 1 },
    { name: 'sample_loss', per: 'sample', count: () => 1 },
  ];
  /** Batches of 2, 3, 4 and 5 tokens; the last token of each batch has a loss per sample. */
  const lengths = [2, 3, 4, 5];
  async function* uneven(): AsyncGenerator<BigramBatch> {
    for (;;) {
      for (const length of lengths) {
        const tokens = Array.from({ length }, (_, at) => (length + 3 * at) % size);
        yield { tokens, labels: tokens.map((token) => (token * 5 + 2) % size) };
      }
    }
  }
  const twoLosses = () => {
    const built = build({ losses, batches: uneven(), trainIterations: 1 });
    built.stage.hasSampleLoss = true;
    return built;
  };
  /** Computes the losses of a batch by the definition, from the table that is the model. */
  function collectLosses(table: readonly number[], { tokens, labels }: BigramBatch): number[] {
    return tokens.map((token, at) => {
      const logits = Array.from({ length: size }, (_, next) => table[next * size + token]!);
      return Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0)) - logits[labels[at]!]!;
    });
  }
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length;

  it('are means over what counts of each in the global batch, and their sum', async () => {
    const { stage, trainer, dispose } = twoLosses();
    const batches = uneven();
    const all = [];
    const table = stage.head.data.toArray();
    for (const _ of lengths) all.push(collectLosses(table, (await batches.next()).value as BigramBatch));
    const expected = {
      token_loss: mean(all.flatMap((values) => values.slice(0, -1))),
      sample_loss: mean(all.map((values) => values.at(-1)!)),
    };
    const evaluated = await trainer.evaluate(uneven(), 4);
    let step: StepMetrics | undefined;
    for await (const metrics of trainer) step ??= metrics;
    expect(evaluated.tokenLosses).toEqual(['token_loss']);
    for (const { loss, otherLosses } of [evaluated, { ...step!, loss: step!.loss }]) {
      expect(Object.keys(otherLosses!)).toEqual(['token_loss', 'sample_loss']);
      for (const name of ['token_loss', 'sample_loss'] as const) {
        // float32 losses of a table of eight
        expect(Math.abs(otherLosses![name]! / expected[name] - 1), name).toBeLessThan(1e-6);
      }
      expect(loss).toBe(otherLosses!.token_loss! + otherLosses!.sample_loss!);
    }
    dispose();
  });

  it('are refused where the losses of the stage and of the run differ', async () => {
    const { stage, trainer, dispose } = twoLosses();
    stage.hasSampleLoss = false;
    await expect(trainer.evaluate(uneven(), 4)).rejects.toMatchObject({ code: 'MTL_LOSS_KINDS' });
    dispose();
    const [perToken] = losses;
    for (const wrong of [[], [perToken!, perToken!]])
      expect(() => build({ losses: wrong })).toThrow(expect.objectContaining({ code: 'MTL_LOSS_KINDS' }));
  });

  it('say which kind counts nothing', async () => {
    const none = [losses[0]!, { ...losses[1]!, count: () => 0 }];
    const { stage, trainer, dispose } = build({ losses: none, batches: uneven() });
    stage.hasSampleLoss = true;
    await expect(trainer.evaluate(uneven(), 4)).rejects.toThrow(/no sample that counts in sample_loss/);
    dispose();
  });
});

/** Creates a directory that is removed when the test is over. */
function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'mtl-trainer-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return directory;
}

const places = [
  { where: 'between steps', inBackground: false },
  { where: 'in the background', inBackground: true },
];

describe('runTraining', () => {
  describe.each(places)(
    'with only skipped steps, where checkpoints are written $where',
    ({ inBackground }) => {
      /** Sums of gradients times 2^127 are beyond float32; the scale halves at every step. */
      const scaler = {
        kind: 'dynamic',
        initialScale: 2 ** 127,
        minScale: 1,
        growthInterval: 100,
        hysteresis: 1,
      } as const;
      const runWith = async (options: BuildOptions, exitInterval?: number) => {
        const built = build({ scaler, rate: () => 0.05, ...options });
        const messages: string[] = [];
        const directory = temporaryDirectory();
        try {
          const result = runTraining({
            ...built,
            reporters: [{ message: (text) => void messages.push(text) }],
            save: { directory, interval: 2, keepLast: undefined, inBackground, configuration: {} },
            exitInterval,
          });
          return {
            result: await result.catch((error: MtlError) => error),
            messages,
            saved: readdirSync(directory),
          };
        } finally {
          built.dispose();
        }
      };

      it('ends with an error, and publishes nothing', async () => {
        const { result, saved } = await runWith({ trainIterations: 3 });
        expect(result).toMatchObject({ code: 'MTL_NO_UPDATE', exitCode: 1 });
        expect((result as MtlError).message).toMatch(
          /^none of the 3 steps changed the weights: the gradients of 3/,
        );
        expect(saved).toEqual([]);
      });

      it('says so where it is interrupted', async () => {
        const { result, messages, saved } = await runWith({ trainIterations: 9 }, 3);
        expect(result).toEqual({ reason: 'exit-interval', checkpointPath: undefined, isUnchanged: true });
        expect(messages.join()).toMatch(
          /none of the 3 steps changed .* nothing is saved; pass --initial-loss-scale/,
        );
        expect(saved).toEqual([]);
      });

      it('saves from the first step on that changes the weights', async () => {
        const { result, messages } = await runWith({
          trainIterations: 12,
          scaler: { ...scaler, initialScale: 2 ** 70 },
        });
        expect(result).toMatchObject({ reason: 'done' });
        const saved = messages.filter((text) => text.startsWith('saved '));
        expect(saved.at(-1)).toContain('iter_0000012');
        expect(saved[0]).not.toContain('iter_0000002');
      });
    },
  );

  it.each(places)(
    'saves $where, evaluates and reports at their intervals, and a resumed run ends at the same weights',
    async ({ inBackground }) => {
      const directory = temporaryDirectory();
      const evaluations: number[] = [];
      const runWith = (built: ReturnType<typeof build>, exitInterval?: number) =>
        runTraining({
          ...built,
          reporters: [{ validation: ({ iteration }) => void evaluations.push(iteration) }],
          save: { directory, interval: 4, keepLast: 2, inBackground, configuration: { name: 'test' } },
          evaluation: { interval: 5, numMicroBatches: 2, open: () => batches() },
          exitInterval,
        });
      const whole = build();
      await all(whole.trainer);
      const first = build();
      expect(await runWith(first, 6)).toMatchObject({ reason: 'exit-interval' });
      expect(readdirSync(directory).filter((name) => name.startsWith('iter_'))).toEqual([
        'iter_0000004',
        'iter_0000006',
      ]);
      const found = await findCheckpoint({ directory, onNotice: () => {} });
      if (found.kind !== 'found') throw new Error('no checkpoint');
      const state = readTrainingState(found.checkpoint.state, found.checkpoint.path);
      const second = build({ progress: state.progress });
      const tensors = [...weightTensors(second.optimizer), ...optimizerTensors(second.optimizer)];
      await loadCheckpoint({ checkpoint: found.checkpoint, tensors });
      second.optimizer.numSteps = state.optimizerSteps;
      expect(await runWith(second)).toMatchObject({ reason: 'done' });
      expect(readWeights(second.optimizer)).toEqual(readWeights(whole.optimizer));
      expect(evaluations).toEqual([5, 10]);
      expect(readdirSync(directory).filter((name) => name.startsWith('iter_'))).toEqual([
        'iter_0000008',
        'iter_0000010',
      ]);
      for (const built of [whole, first, second]) built.dispose();
    },
  );

  describe.for(places)('a save $where of values that are not finite', ({ inBackground }) => {
    type Built = ReturnType<typeof build>;
    const poison = (buffer: Tensor, value: number): void => {
      using last = buffer.view({ offset: 5, shape: [1] });
      last.write(new Uint8Array(Float32Array.of(value).buffer));
    };
    const poisonWeight = ({ stores }: ModelOptimizer, value: number): void => {
      using master = stores[0]!.master(stores[0]!.owned[0]!);
      poison(master, value);
    };
    const spoil: Record<string, { change: (built: Built) => void; message: RegExp }> = {
      'NaN in exp_avg': {
        change: ({ optimizer }) => poison(optimizer.state[0]!.buffer, Number.NaN),
        message: /^iteration 4: optimizer\.exp_avg\.head\S*\[0, 5\] is NaN; this checkpoint was not/,
      },
      'infinity in exp_avg_sq': {
        change: ({ optimizer }) => poison(optimizer.state[1]!.buffer, Number.POSITIVE_INFINITY),
        message: /^iteration 4: optimizer\.exp_avg_sq\.head\S*\[0, 5\] is Infinity;/,
      },
      'NaN in a weight': {
        change: ({ optimizer }) => poisonWeight(optimizer, Number.NaN),
        message: /^iteration 4: head\S*\[0, 5\] is NaN;/,
      },
      'a weight that no forward pass survives': {
        change: ({ optimizer }) => poisonWeight(optimizer, -1e30),
        message: /^iteration 4: head\S*\[0, 5\] is -1\S*e\+(29|30), whose square overflows in float32;/,
      },
    };
    it.for(Object.keys(spoil))('%s: ends the run and keeps what was saved', async (what) => {
      const { change, message } = spoil[what]!;
      const directory = temporaryDirectory();
      const built = build();
      // after the update, before the save
      const step = ({ iteration }: StepMetrics): void => void (iteration === 4 && change(built));
      const save = { directory, interval: 2, keepLast: 1, inBackground, configuration: {} };
      await expect(runTraining({ ...built, save, reporters: [{ step }] })).rejects.toMatchObject({
        code: 'MTL_NOT_FINITE',
        exitCode: 1,
        message: expect.stringMatching(inBackground ? /./ : message),
      });
      expect(readdirSync(directory)).toEqual(['iter_0000002', 'latest_checkpointed_iteration.txt']);
      built.dispose();
    });
  });

  it.each(places)(
    'a directory that is deleted is made whole again by the next save $where',
    async (place) => {
      const directory = join(temporaryDirectory(), 'run');
      const built = build();
      let isDeleted = false;
      // when the first checkpoint is published
      const message = (): void => {
        if (!isDeleted) rmSync(directory, { recursive: true });
        isDeleted = true;
      };
      const prepareDirectory = async (): Promise<void> => writeFileSync(join(directory, 'tokenizer'), '');
      const settings = { directory, interval: 4, keepLast: undefined, configuration: {}, prepareDirectory };
      const save = { ...settings, inBackground: place.inBackground };
      const reporters = [{ message }];
      expect(await runTraining({ ...built, save, reporters })).toMatchObject({ reason: 'done' });
      expect(readdirSync(directory).sort()).toEqual([
        'iter_0000008',
        'iter_0000010',
        'latest_checkpointed_iteration.txt',
        'tokenizer',
      ]);
      built.dispose();
    },
  );

  it('stops after the step that passes the deadline, and saves it', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'mtl-trainer-'));
    const save = { directory, interval: undefined, keepLast: undefined, configuration: {} };
    const late = build({ trainIterations: 1000 });
    const result = await runTraining({ ...late, reporters: [], save, deadlineMs: performance.now() });
    expect(result).toEqual({ reason: 'deadline', checkpointPath: join(directory, 'iter_0000001') });
    const early = build();
    const deadlineMs = performance.now() + 3_600_000;
    expect(await runTraining({ ...early, reporters: [], deadlineMs })).toMatchObject({ reason: 'done' });
    for (const built of [late, early]) built.dispose();
    rmSync(directory, { recursive: true });
  });

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    'stops after the running step on %s, and removes the handlers',
    async (name) => {
      const built = build({ trainIterations: 1000 });
      const handlers = process.listenerCount(name);
      const signals = new StopSignals();
      const result = await runTraining({
        ...built,
        signals,
        reporters: [{ step: ({ iteration }) => void (iteration === 3 && process.emit(name, name)) }],
      });
      expect(result.reason).toBe(name);
      expect(built.trainer.progress.iteration).toBe(3);
      signals.close();
      expect(process.listenerCount(name)).toBe(handlers);
      built.dispose();
    },
  );

  it('takes the several SIGHUPs of a terminal that goes away for one', () => {
    const handlers = process.stdout.listenerCount('error');
    const signals = new StopSignals();
    for (let count = 0; count < 3; count++) process.emit('SIGHUP', 'SIGHUP');
    expect(signals.received).toBe('SIGHUP');
    signals.close();
    expect(process.stdout.listenerCount('error')).toBe(handlers);
  });

  it('listens once a process, and warns of nothing where many threads write to its output', async () => {
    const counts = () =>
      [process.stdout, process.stderr]
        .map((stream) => stream.listenerCount('error'))
        .concat(process.listenerCount('SIGTERM'));
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on('warning', onWarning);
    const most = process.stdout.getMaxListeners();
    // each thread with piped output adds one listener
    const threads = Array.from({ length: 2 * most }, () => () => {});
    process.stdout.setMaxListeners(0);
    for (const listener of threads) process.stdout.on('error', listener);
    process.stdout.setMaxListeners(most);
    const before = counts();
    const all = Array.from({ length: 2 * most }, () => new StopSignals());
    expect(counts()).toEqual(before.map((count) => count + 1));
    expect(process.stdout.getMaxListeners()).toBe(most);
    all[0]!.close();
    process.emit('SIGHUP', 'SIGHUP');
    expect(all.map(({ received }) => received)).toEqual([undefined, ...all.slice(1).map(() => 'SIGHUP')]);
    for (const signals of all) signals.close();
    expect(counts()).toEqual(before);
    for (const listener of threads) process.stdout.off('error', listener);
    await new Promise((resolve) => setImmediate(resolve)); // a warning comes later
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
  });

  it.each([
    ['EIO', undefined],
    ['EPIPE', undefined],
    ['ENOSPC', 1],
  ])('takes output that fails with %s for a SIGHUP, and for a failure if it is one', (code, status) => {
    const before = process.exitCode;
    const signals = new StopSignals();
    for (let count = 0; count < 3; count++) {
      process.stdout.emit('error', Object.assign(new Error('lost'), { code }));
    }
    const { exitCode } = process;
    process.exitCode = before;
    signals.close();
    expect(signals.received).toBe('SIGHUP');
    expect(exitCode).toBe(status ?? before);
  });
});

describe('a checkpoint written in the background', () => {
  const settings = () => {
    const save = { directory: temporaryDirectory(), interval: 4, keepLast: undefined, inBackground: true };
    return { ...save, configuration: {} };
  };

  it('is published while steps go on, as soon as it is written', async () => {
    // the next one would be due a million steps later
    const interval = 2 ** 20;
    const progress = { iteration: interval - 2, consumedSamples: 0, consumedTokens: 0 };
    const built = build({ trainIterations: 2 * interval, progress });
    const signals = new StopSignals();
    const events: string[] = [];
    const latest = performance.now() + 30_000;
    const { reason } = await runTraining({
      ...built,
      signals,
      save: { ...settings(), interval },
      reporters: [
        {
          step: ({ iteration }) => {
            events.push(`step ${iteration - interval}`);
            if (performance.now() > latest) throw new Error('not published within half a minute');
          },
          message: (text) => {
            events.push(text.replace(/.*iter_/, 'saved '));
            // a second one would end this process
            if (signals.received === undefined) process.emit('SIGTERM', 'SIGTERM');
          },
        },
      ],
    });
    signals.close();
    expect(reason).toBe('SIGTERM');
    expect(events.slice(0, 3)).toEqual(['step -1', 'step 0', 'step 1']);
    const published = events.indexOf(`saved ${interval}`);
    expect(published).toBeGreaterThan(2);
    // the signal came between two steps: one more, and the checkpoint of the end
    expect(events.slice(published + 1)).toEqual([
      expect.stringMatching(/^step /),
      expect.stringMatching(/^saved /),
    ]);
    built.dispose();
  }, 60_000);

  it('exists when the run ends in an error before it was written', async () => {
    const save = settings();
    const rate = ({ numUpdates }: { numUpdates: number }): number => (numUpdates === 4 ? Number.NaN : 0.05);
    const built = build({ rate });
    const run = runTraining({ ...built, save, reporters: [] });
    await expect(run).rejects.toMatchObject({ code: 'MTL_NOT_FINITE' });
    expect(built.trainer.progress.iteration).toBe(6);
    expect(readdirSync(save.directory)).toContain('iter_0000004');
    built.dispose();
  });

  it('ends the run when it cannot be written', async () => {
    const save = settings();
    const step = ({ iteration }: StepMetrics): void => {
      if (iteration !== 5) return;
      renameSync(join(save.directory, 'iter_0000004.saving'), join(save.directory, 'elsewhere'));
    };
    const built = build();
    await expect(runTraining({ ...built, save, reporters: [{ step }] })).rejects.toMatchObject({
      name: 'CheckpointError',
    });
    expect(readdirSync(save.directory)).toEqual(['elsewhere']);
    built.dispose();
  });
});
