import type { LocalWorld, World } from '@mtl/comm';
import { Pipeline, StepProfiler } from '../../src/index.js';
import { affineBatches } from '../support/affine-chain.js';
import { AffineStage } from '../support/affine-stage.js';
import { type ChainCase, lossFactor, makeSchedule } from './run-affine-chain.js';

export interface WriteStepTraces {
  readonly chainCase: ChainCase;
  readonly passMs: number;
  readonly file: string;
}

/**
 * Runs two pipelines side by side for four steps, each followed by an optimizer step. The second and the
 * third step are traced; the third one begins with an evaluation.
 */
export default function writeStepTraces(world: World, { chainCase, passMs, file }: WriteStepTraces): void {
  const { numStages, numMicroBatches, size } = chainCase;
  const first = world.rank < numStages ? 0 : numStages;
  const ranks = Array.from({ length: numStages }, (_, stage) => first + stage);
  const group = world.createGroup({ name: 'pp', ranks });
  const { placement } = makeSchedule(chainCase, numMicroBatches);
  const times = { forward: passMs, backwardInput: passMs, backwardWeight: passMs };
  const own = placement.flatMap((home, chunk) => (home === group.rank ? [chunk] : []));
  const numChunks = placement.length;
  const profiler = new StepProfiler({
    first: 2,
    last: 3,
    file,
    group: world.group,
    pipeline: group,
    takeOperations: () => ('takeTrace' in world ? (world as LocalWorld).takeTrace() : []),
  });
  const pipeline = new Pipeline({
    stages: new Map(own.map((chunk) => [chunk, new AffineStage({ chunk, numChunks, times })])),
    schedule: (count) => makeSchedule(chainCase, count),
    group,
    recorder: profiler,
    dtype: 'float64',
    device: 'cpu',
  });
  const batches = affineBatches(numMicroBatches, size);
  for (let step = 1; step <= 4; step++) {
    profiler.beginStep(step);
    if (step === 3) pipeline.evaluate({ batches, lossFactors: { loss: lossFactor }, onLoss: () => {} });
    pipeline.run({ batches, lossFactors: { loss: lossFactor }, onLoss: () => {} });
    profiler.span({ kind: 'optimizer' }, () => world.group.barrier().wait());
    profiler.endStep(step);
  }
}
