import { deepStrictEqual } from 'node:assert';
import { constants, setPriority } from 'node:os';
import type { World } from '@mtl/comm';
import { Pipeline, type RecordedSpan } from '../../src/index.js';
import { ActivityRecorder } from '../../src/recording/step-profiler.js';
import { affineBatches, affineChain } from '../support/affine-chain.js';
import { AffineStage } from '../support/affine-stage.js';
import { type ChainCase, lossFactor, makeSchedule } from './run-affine-chain.js';

/** A case whose stages take known times. */
export interface TimedCase extends ChainCase {
  /** The duration of F, of I and of W on one chunk, in milliseconds. */
  readonly passMs: number;
}

export interface TimedCases {
  readonly cases: readonly TimedCase[];
  readonly numSteps: number;
  /**
   * True to let these processes, which sleep nearly all the time, run before others when they wake; this
   * needs the privilege to raise priorities. The priority is an ordinary one: a real-time priority would keep
   * a computing thread's core from all others.
   */
  readonly isFirst?: boolean;
}

/** Returns the activities of this rank, by case and step. */
export default function timePasses(world: World, argument: TimedCases): RecordedSpan[][][] {
  if (argument.isFirst === true) setPriority(constants.priority.PRIORITY_HIGHEST);
  return argument.cases.map((timedCase) => timeCase(world, { timedCase, numSteps: argument.numSteps }));
}

function timeCase(
  world: World,
  { timedCase, numSteps }: { readonly timedCase: TimedCase; readonly numSteps: number },
): RecordedSpan[][] {
  const { numMicroBatches, size, passMs } = timedCase;
  const { placement } = makeSchedule(timedCase, numMicroBatches);
  const numChunks = placement.length;
  const times = { forward: passMs, backwardInput: passMs, backwardWeight: passMs };
  const own = placement.flatMap((home, chunk) => (home === world.rank ? [chunk] : []));
  const stages = new Map(own.map((chunk) => [chunk, new AffineStage({ chunk, numChunks, times })]));
  const recorder = new ActivityRecorder();
  const pipeline = new Pipeline({
    stages,
    schedule: (count) => makeSchedule(timedCase, count),
    group: world.group,
    dtype: 'float64',
    device: 'cpu',
    recorder,
  });
  const batches = affineBatches(numMicroBatches, size);
  const steps = Array.from({ length: numSteps }, () => {
    world.group.barrier().wait();
    pipeline.run({ batches, lossFactors: { loss: lossFactor }, onLoss: () => {} });
    return [...recorder.take()];
  });
  // the results are checked after the measured steps
  const expected = affineChain(batches, { numChunks, lossFactor }).gradients;
  for (const [chunk, { gradients }] of stages) {
    const { factor, offset } = expected[chunk]!;
    deepStrictEqual(gradients, { factor: numSteps * factor, offset: numSteps * offset });
  }
  return steps;
}
