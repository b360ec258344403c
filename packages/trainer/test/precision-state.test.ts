import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type MatmulPrecision, type PrecisionState, plainPrecision } from '@mtl/autograd';
import { Checkpoint, loadCheckpoint, saveCheckpoint } from '@mtl/checkpoint';
import { numLiveTensors, Tensor } from '@mtl/kernels';
import { AdamwOptimizer, createStores, LossScaler, NumMicroBatches } from '@mtl/optimizer';
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import { optimizerTensors, Trainer, type TrainingProgress, weightTensors } from '../src/index.js';
import { type BigramBatch, BigramStage, onePiece } from './bigram-stage.js';

const size = 8;
let before: number;
beforeEach(() => {
  before = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(before));

/**
 * Computes with the weight rounded to multiples of a sixteenth of its largest value two passes ago, like
 * delayed scaling: the result of a pass depends on earlier passes.
 */
class DelayedSteps implements MatmulPrecision {
  readonly history = Tensor.zeros({ shape: [2], dtype: 'float32' });
  readonly state: readonly PrecisionState[] = [{ name: 'largest_values', tensor: this.history }];
  readonly inputGradient = plainPrecision.inputGradient;
  readonly weightGradient = plainPrecision.weightGradient;

  forward(call: Parameters<MatmulPrecision['forward']>[0]): void {
    const values = call.weight.read<'float32'>();
    const [oldest, newer] = this.history.read<'float32'>() as unknown as [number, number];
    const step = (oldest === 0 ? 1 : oldest) / 16;
    const rounded = values.map((value) => Math.round(value / step) * step);
    using weight = Tensor.from(rounded, { shape: call.weight.shape, dtype: 'float32' });
    plainPrecision.forward({ ...call, weight });
    this.history.write(Float32Array.of(newer, Math.max(...values.map(Math.abs))));
  }
}

function build(progress?: TrainingProgress) {
  const stage = new BigramStage(size);
  const precision = new DelayedSteps();
  stage.head.computeWith(precision);
  const stores = createStores([stage.head], { device: 'cpu', dtype: 'float32', seed: 1 });
  const adamw = { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, clipGrad: 0 };
  const optimizer = new AdamwOptimizer(stores, adamw);
  async function* batches(): AsyncGenerator<BigramBatch> {
    for (let sample = progress?.consumedSamples ?? 0; ; sample++) {
      const tokens = [(sample * 3) % size, (sample * 3 + 1) % size];
      yield { tokens, labels: tokens.map((token) => (token * 5 + 2) % size) };
    }
  }
  const trainer = new Trainer<BigramBatch>({
    pipeline: onePiece(stage),
    optimizer,
    lossScaler: new LossScaler({ kind: 'constant' }),
    device: 'cpu',
    sequenceLength: 2,
    flopsPerSample: 1,
    learningRate: () => 0.05,
    microBatches: new NumMicroBatches({ globalBatchSize: 4, microBatchSize: 1, numShares: 1 }),
    batches: batches(),
    losses: [{ name: 'lm_loss', per: 'token', count: ({ tokens }) => tokens.length }],
    trainIterations: 8,
    ...(progress === undefined ? {} : { progress }),
  });
  const train = async (steps: number): Promise<number[]> => {
    const losses: number[] = [];
    for await (const { loss } of trainer) if (losses.push(loss) === steps) break;
    return losses;
  };
  const dispose = (): void => {
    optimizer.dispose();
    precision.history.dispose();
  };
  return { trainer, optimizer, precision, train, dispose };
}

it('is part of checkpoints, so that a run goes on as if it had not ended', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'mtl-precision-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const whole = build();
  const losses = await whole.train(8);
  whole.dispose();
  const first = build();
  expect(await first.train(4)).toEqual(losses.slice(0, 4));
  const { path } = await saveCheckpoint({
    directory,
    iteration: 4,
    tensors: [...weightTensors(first.optimizer), ...optimizerTensors(first.optimizer)],
    state: {},
  });
  const { progress } = first.trainer;
  first.dispose();
  const checkpoint = await Checkpoint.open(path);
  expect(checkpoint.tensors.get('optimizer.largest_values.head')?.globalShape).toEqual([2]);
  const goOn = async (withState: boolean): Promise<number[]> => {
    const second = build({ ...progress });
    second.optimizer.numSteps = 4;
    const tensors = [...weightTensors(second.optimizer), ...optimizerTensors(second.optimizer)];
    await loadCheckpoint({ checkpoint, tensors });
    if (!withState) second.precision.history.zero();
    const rest = await second.train(4);
    second.dispose();
    return rest;
  };
  expect(await goOn(true)).toEqual(losses.slice(4));
  expect(await goOn(false)).not.toEqual(losses.slice(4));
});
