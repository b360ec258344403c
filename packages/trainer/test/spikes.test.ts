import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findCheckpoint, loadCheckpoint } from '@mtl/checkpoint';
import { AdamwOptimizer, createStores, LossScaler, NumMicroBatches } from '@mtl/optimizer';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  optimizerTensors,
  readTrainingState,
  runTraining,
  SpikeGuard,
  type SpikeGuardOptions,
  type StepMetrics,
  Trainer,
  type TrainingEvent,
  type TrainingProgress,
  weightTensors,
} from '../src/index.js';
import { type BigramBatch, BigramStage, onePiece } from './bigram-stage.js';
import type { TrainBigramsArgument, TrainBigramsResult } from './ranks/train-bigrams.js';
import { StandingRanks } from './support/standing-ranks.js';

const size = 8;
const globalBatchSize = 4;
const window = 8;

interface RunOptions {
  readonly trainIterations?: number;
  readonly spikes: Partial<SpikeGuardOptions>;
  /** Hidden states, and with them gradients, of some iterations are multiplied. */
  readonly boosts?: Readonly<Record<number, number>>;
  readonly directory?: string;
  /** The checkpoint to continue from in that directory. */
  readonly from?: number;
  /** Progress that replaces the checkpoint's progress. */
  readonly progress?: TrainingProgress;
}

/** Trains a small model in one process. */
async function run(options: RunOptions) {
  const { boosts = {}, directory, from, spikes, trainIterations = 30 } = options;
  const stage = new BigramStage(size);
  const stores = createStores([stage.head], { device: 'cpu', dtype: 'float32', seed: 1 });
  const adamw = { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, clipGrad: 1 };
  const optimizer = new AdamwOptimizer(stores, adamw);
  const lossScaler = new LossScaler({ kind: 'constant' });
  const found =
    from === undefined
      ? undefined
      : await findCheckpoint({ directory: directory!, step: from, onNotice: () => {} });
  const checkpoint = found?.kind === 'found' ? found.checkpoint : undefined;
  const state = checkpoint && readTrainingState(checkpoint.state, checkpoint.path);
  if (checkpoint !== undefined) {
    const tensors = [...weightTensors(optimizer), ...optimizerTensors(optimizer)];
    await loadCheckpoint({ checkpoint, tensors });
    optimizer.refreshModel();
    optimizer.numSteps = state!.optimizerSteps;
  }
  const progress = options.progress ?? state?.progress;
  async function* batches(): AsyncGenerator<BigramBatch> {
    for (let sample = progress?.consumedSamples ?? 0; ; sample++) {
      stage.boost = boosts[Math.floor(sample / globalBatchSize) + 1] ?? 1;
      const tokens = [(sample * 3) % size, (sample * 3 + 1) % size];
      yield { tokens, labels: tokens.map((token) => (token * 5 + 2) % size) };
    }
  }
  const usual = { policy: 'skip', window, factor: 10, limit: 3 } as const;
  const spikeGuard = new SpikeGuard({ ...usual, ...spikes });
  const trainer = new Trainer<BigramBatch>({
    pipeline: onePiece(stage),
    optimizer,
    lossScaler,
    device: 'cpu',
    sequenceLength: 2,
    flopsPerSample: 100,
    learningRate: ({ numUpdates }) => 0.05 / (1 + numUpdates),
    microBatches: new NumMicroBatches({ globalBatchSize, microBatchSize: 1, numShares: 1 }),
    batches: batches(),
    losses: [{ name: 'lm_loss', per: 'token', count: ({ tokens }) => tokens.length }],
    trainIterations,
    extensions: [spikeGuard],
    ...(progress === undefined ? {} : { progress }),
  });
  if (checkpoint !== undefined) trainer.extensions.restore(checkpoint);
  const [steps, events]: [StepMetrics[], TrainingEvent[]] = [[], []];
  const save = directory === undefined ? undefined : { directory, interval: 5, keepLast: undefined };
  try {
    await runTraining({
      trainer,
      optimizer,
      lossScaler,
      reporters: [{ step: (step) => steps.push(step), event: (event) => events.push(event) }],
      save: save && { ...save, configuration: {} },
      resumedFrom: checkpoint?.path,
    });
    return { steps, events, weights: stage.head.data.toArray(), numUpdates: optimizer.numSteps };
  } finally {
    optimizer.dispose();
  }
}

const losses = (steps: readonly StepMetrics[]): number[] => steps.map(({ loss }) => loss);
const listSkipped = (steps: readonly StepMetrics[]): number[] =>
  steps.filter(({ skipped }) => skipped).map(({ iteration }) => iteration);

function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'mtl-spikes-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return directory;
}

describe('a spike in one process', () => {
  it('is only reported where the policy says so, and changes nothing', async () => {
    const boosts = { 20: -40 };
    const reported = await run({ boosts, spikes: { policy: 'report' } });
    const ignored = await run({ boosts, spikes: { policy: 'ignore' } });
    expect(reported.events.map(({ type, iteration }) => [type, iteration])).toEqual([['spike', 20]]);
    expect(ignored.events).toEqual([]);
    expect(losses(reported.steps)).toEqual(losses(ignored.steps));
    expect(reported.weights).toEqual(ignored.weights);
  });

  it('is skipped, and leaves no trace in what follows', async () => {
    const runs = [];
    for (const factor of [-40, -400, Number.NaN])
      runs.push(await run({ boosts: { 20: factor }, spikes: {} }));
    const quiet = await run({ spikes: {} });
    for (const { steps, events, weights, numUpdates } of runs) {
      expect(listSkipped(steps)).toEqual([20]);
      expect(events.length).toBe(1);
      expect(numUpdates).toBe(29);
      expect(steps[19]).toMatchObject({ consumedSamples: 80, learningRate: 0.05 / 20 });
      expect(steps[20]).toMatchObject({ consumedSamples: 84, learningRate: 0.05 / 20 });
      expect(losses(steps.slice(0, 19))).toEqual(losses(quiet.steps.slice(0, 19)));
      expect(losses(steps.slice(20))).toEqual(losses(runs[0]!.steps.slice(20)));
      expect(weights).toEqual(runs[0]!.weights);
      expect(weights).not.toEqual(quiet.weights);
    }
    expect(quiet.events).toEqual([]);
  });

  it('waits for no other numbers than a run that takes every step', async () => {
    const [guarded, free] = [await run({ spikes: {} }), await run({ spikes: { policy: 'ignore' } })];
    expect(guarded.steps.map(({ loss, gradNorm }) => [loss, gradNorm])).toEqual(
      free.steps.map(({ loss, gradNorm }) => [loss, gradNorm]),
    );
    expect(guarded.weights).toEqual(free.weights);
  });

  it('is decided alike by a run that was resumed in between', async () => {
    const directory = temporaryDirectory();
    const boosts = { 16: -40, 23: -40 };
    const straight = await run({ boosts, spikes: {} });
    expect(listSkipped(straight.steps)).toEqual([16, 23]);
    const parts = [
      await run({ boosts, spikes: {}, directory, trainIterations: 14 }),
      await run({ boosts, spikes: {}, directory, from: 14, trainIterations: 20 }),
      await run({ boosts, spikes: {}, directory, from: 20 }),
    ];
    expect(losses(parts.flatMap(({ steps }) => steps))).toEqual(losses(straight.steps));
    expect(parts.at(-1)!.weights).toEqual(straight.weights);
  });

  it('takes the run back to its newest checkpoint, and on with the samples that follow', async () => {
    const directory = temporaryDirectory();
    const spikes = { policy: 'roll-back' } as const;
    const rolledBack = await run({ boosts: { 18: -40 }, spikes, directory, trainIterations: 24 });
    const { steps, events } = rolledBack;
    expect(listSkipped(steps)).toEqual([18]);
    expect(
      events.map(({ type, iteration, fields }) => [type, iteration, fields.checkpoint_iteration]),
    ).toEqual([
      ['spike', 18, undefined],
      ['roll_back', 18, 15],
    ]);
    expect(steps.map(({ iteration }) => iteration)).toEqual(Array.from({ length: 24 }, (_, n) => n + 1));
    const progress = { iteration: 18, consumedSamples: 72, consumedTokens: 144 };
    const expected = await run({ spikes, directory, from: 15, progress, trainIterations: 24 });
    expect(losses(steps.slice(18))).toEqual(losses(expected.steps));
    expect(rolledBack.weights).toEqual(expected.weights);
    expect([rolledBack.numUpdates, expected.numUpdates]).toEqual([21, 21]);
    expect(steps[18]!.learningRate).toBe(0.05 / 16);
  });

  it('ends the run when spikes do not end', async () => {
    const boosts = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [n + 12, Number.NaN]));
    for (const policy of ['skip', 'roll-back'] as const) {
      const directory = temporaryDirectory();
      await expect(run({ boosts, spikes: { policy }, directory })).rejects.toMatchObject({
        code: 'MTL_LOSS_SPIKE',
        details: { iteration: 15 },
      });
    }
  });

  it('says so where there is no checkpoint yet to go back to', async () => {
    const { events, steps } = await run({
      boosts: { 12: -40 },
      spikes: { policy: 'roll-back' },
      trainIterations: 14,
    });
    expect(events.at(-1)!.text).toMatch(/no checkpoint yet to roll back to at iteration 12/);
    expect(listSkipped(steps)).toEqual([12]);
  });
});

describe('a spike on several data-parallel ranks', () => {
  const base = { distributed: false, overlap: false, dtype: 'float32', trainIterations: 16 } as const;
  let two: StandingRanks<TrainBigramsArgument, TrainBigramsResult>;
  beforeAll(() => {
    two = new StandingRanks(new URL('./ranks/train-bigrams.ts', import.meta.url), 2);
  });
  afterAll(() => two.stop());
  const runRanks = (change: Partial<TrainBigramsArgument> & { dp: number }): Promise<TrainBigramsResult[]> =>
    two.run(change.dp, { ...base, ...change });
  const skipping = (factor: number) => ({
    spikes: { policy: 'skip' } as const,
    boost: { iteration: 12, factor },
  });

  it('is skipped on all ranks, without a trace, whatever the layout', { tags: ['whole'] }, async () => {
    const [alone] = await runRanks({ dp: 1, ...skipping(-40) });
    for (const kind of [
      { dp: 2, distributed: false, overlap: true },
      { dp: 2, distributed: true, overlap: true },
    ]) {
      const [small, large] = [
        await runRanks({ ...kind, ...skipping(-40) }),
        await runRanks({ ...kind, ...skipping(-400) }),
      ];
      for (const { steps } of [...small, ...large]) expect(listSkipped(steps)).toEqual([12]);
      const others = (ranks: readonly TrainBigramsResult[]) =>
        ranks.map(({ steps }) => losses(steps.filter(({ skipped }) => !skipped)));
      expect(others(large)).toEqual(others(small));
      expect(large.map(({ modelBits }) => modelBits)).toEqual(small.map(({ modelBits }) => modelBits));
      // the bounds of parity between layouts in float32
      small[0]!.steps.forEach(({ loss }, index) => {
        expect(Math.abs(loss / alone!.steps[index]!.loss - 1)).toBeLessThan(2e-6);
      });
    }
  });

  it('is computed again: a bit that flips is a fault of its rank, and leaves no trace', async () => {
    const checked = { dp: 2, spikes: { policy: 'skip' }, rerun: 'validate_results' } as const;
    const quiet = await runRanks(checked);
    const faulty = await runRanks({ ...checked, flip: { rank: 1, iteration: 12 } });
    expect(listSkipped(quiet[0]!.steps)).toEqual([]);
    for (const [rank, { steps, modelBits }] of faulty.entries()) {
      expect(listSkipped(steps)).toEqual([]);
      expect(steps.flatMap(({ events = [] }) => events)).toMatchObject([
        { type: 'rerun', iteration: 12, fields: { result: 'transient', ranks: [1], hosts: ['second'] } },
      ]);
      expect(losses(steps)).toEqual(losses(quiet[rank]!.steps));
      expect(modelBits).toEqual(quiet[rank]!.modelBits);
    }
    const [data] = await runRanks({ ...checked, ...skipping(-40) });
    expect(listSkipped(data!.steps)).toEqual([12]);
    const results = data!.steps[11]!.events!.map(({ type, fields }) => [type, fields.result]);
    expect(results).toEqual([
      ['rerun', 'reproducible'],
      ['spike', undefined],
    ]);
  });
});
