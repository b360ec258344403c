import type { World } from '@mtl/comm';
import { Pipeline, type RecordedSpan } from '../../src/index.js';
import { ClockStage, type PassUnits, RankClock } from '../support/clock-stage.js';
import { type ChainCase, makeSchedule } from './run-affine-chain.js';

export interface ClockCase extends Omit<ChainCase, 'numReplicas' | 'size'> {
  /** The durations of each chunk's passes, in nanoseconds of the simulated clock. */
  readonly units: readonly PassUnits[];
}

/** Returns the times of this rank's passes on its simulated clock, by case. */
export default function runByClocks(world: World, cases: readonly ClockCase[]): RecordedSpan[][] {
  return cases.map(({ units, ...clockCase }) => {
    const { numMicroBatches } = clockCase;
    const schedule = (count: number) => makeSchedule({ ...clockCase, numReplicas: 1, size: 1 }, count);
    const { placement } = schedule(numMicroBatches);
    const clock = new RankClock();
    const numChunks = placement.length;
    const stages = new Map(
      placement.flatMap((home, chunk) =>
        home === world.rank
          ? [[chunk, new ClockStage({ chunk, numChunks, clock, units: units[chunk]! })] as const]
          : [],
      ),
    );
    const pipeline = new Pipeline<undefined>({
      stages,
      schedule,
      group: world.group,
      dtype: 'float64',
      device: 'cpu',
    });
    const batches = new Array<undefined>(numMicroBatches).fill(undefined);
    pipeline.run({ batches, lossFactors: { loss: 1 }, onLoss: () => {} });
    return clock.spans;
  });
}
