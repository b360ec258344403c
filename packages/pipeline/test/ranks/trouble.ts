import type { World } from '@mtl/comm';
import { numLiveTensors } from '@mtl/kernels';
import { Pipeline, type StageForward } from '../../src/index.js';
import { buildSchedule } from '../../src/schedules.js';
import { affineBatches } from '../support/affine-chain.js';
import { type AffineBatch, AffineStage } from '../support/affine-stage.js';

/** The fault of rank 1, in a pipeline of three ranks. */
export interface Trouble {
  readonly kind:
    | 'none'
    | 'hang'
    | 'throw'
    | 'shape'
    | 'schedule'
    | 'microBatches'
    | 'dtype'
    | 'sameChunk'
    | 'result';
}

const size = 1000;
const numMicroBatches = 6;

class TroubledStage extends AffineStage {
  constructor(
    chunk: number,
    public kind: Trouble['kind'],
  ) {
    super({ chunk, numChunks: 3 });
  }

  override boundaryShape(batch: AffineBatch): readonly number[] {
    return this.kind === 'shape' ? [batch.values.length, 2] : super.boundaryShape(batch);
  }

  override forward(call: StageForward<AffineBatch>) {
    const result = super.forward(call);
    if (result === undefined) return result;
    if (call.microBatch < 2 || !['throw', 'hang', 'result'].includes(this.kind)) return result;
    const short = result.rows(0, size - 1);
    result.dispose();
    if (this.kind === 'result') return short;
    short.dispose();
    if (this.kind === 'hang') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    throw new Error('a bug in the model');
  }
}

/**
 * Runs steps until one fails; prints when the first one is done, and the tensors that the failed one left
 * behind.
 */
export default function trouble(world: World, { kind }: Trouble): void {
  const numLive = numLiveTensors();
  const own = world.rank === 1 ? kind : 'none';
  const isLater = ['hang', 'throw', 'result'].includes(own);
  const chunk = own === 'sameChunk' ? 0 : world.rank;
  const name = own === 'schedule' ? 'gpipe' : '1f1b';
  const stage = new TroubledStage(chunk, isLater ? 'none' : own);
  const pipeline = new Pipeline({
    stages: new Map([[chunk, stage]]),
    schedule: (count) => buildSchedule(name, { numStages: 3, numMicroBatches: count }),
    group: world.group,
    dtype: own === 'dtype' ? 'float32' : 'float64',
    device: 'cpu',
  });
  const batches = affineBatches(own === 'microBatches' ? numMicroBatches + 1 : numMicroBatches, size);
  try {
    for (let step = 0; step < 1_000_000; step++) {
      pipeline.run({ batches, lossFactors: { loss: 1 }, onLoss: () => {} });
      if (step === 0) process.stdout.write(`${JSON.stringify({ ready: world.rank })}\n`);
      stage.kind = own;
    }
  } catch (error) {
    pipeline.abandon();
    // on the rank that fails first, operations stay in progress until the other ranks know of the failure
    if (own === 'none') process.stdout.write(`${JSON.stringify({ left: numLeft(numLive) })}\n`);
    throw error;
  }
}

/**
 * Returns the number of tensors in addition to `numBefore`, after the engine has released the tensors of
 * failed operations, which may take a moment.
 */
function numLeft(numBefore: number): number {
  const deadline = performance.now() + 10_000;
  const nothing = new Int32Array(new SharedArrayBuffer(4));
  while (numLiveTensors() > numBefore && performance.now() < deadline) Atomics.wait(nothing, 0, 0, 5);
  return numLiveTensors() - numBefore;
}
