import { runLocalRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import type { RecordedSpan } from '../../src/index.js';
import { measureStep } from '../../src/measured/measured-step.js';
import { type Simulation, simulateSchedule } from '../../src/schedules.js';
import { makeSchedule } from '../ranks/run-affine-chain.js';
import type { TimedCase, TimedCases } from '../ranks/time-passes.js';
import { ofEveryChunk } from './of-every-chunk.js';

export interface MeasuredBubble {
  readonly timedCase: TimedCase;
  /** The simulation with the durations that the stages are set to. Times are milliseconds. */
  readonly simulated: Simulation;
  /** The steps that were run, in order. Times are milliseconds. */
  readonly measured: readonly Simulation[];
}

/** Runs cases with the same number of stages on processes whose stages sleep, and simulates the cases. */
export async function measureBubbles(argument: TimedCases): Promise<MeasuredBubble[]> {
  const { cases, numSteps } = argument;
  const ranks = await runLocalRanks<RecordedSpan[][][]>({
    worldSize: cases[0]!.numStages,
    ...rankThreads(new URL('../ranks/time-passes.ts', import.meta.url)),
    argument,
    timeoutMs: 60_000,
  });
  return cases.map((timedCase, index) => {
    const schedule = makeSchedule(timedCase, timedCase.numMicroBatches);
    const { passMs } = timedCase;
    const times = ofEveryChunk(schedule, {
      forward: passMs,
      backwardInput: passMs,
      backwardWeight: passMs,
    });
    const steps = Array.from({ length: numSteps }, (_, step) =>
      measureStep(
        ranks.map((rank) => rank[index]![step]!),
        { name: schedule.name },
      ),
    );
    return { timedCase, simulated: simulateSchedule({ schedule, times }), measured: steps };
  });
}
