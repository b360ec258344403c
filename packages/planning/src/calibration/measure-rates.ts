import { totalmem } from 'node:os';
import type { World } from '@mtl/comm';
import { MtlError } from '@mtl/errors';
import type { MeasuredRates } from '@mtl/planner';
import { setThreadsOfRank } from '@mtl/run-parts/internal';
import { dryRunModel } from '../dry-run/dry-run-model.js';
import { dryRunRank } from '../dry-run/dry-run-rank.js';
import { measureCollectives } from './measure-collectives.js';
import { measuredEntries } from './measured-points.js';
import { OperationClock, type OperationSamples, typicalSteps } from './operation-clock.js';
import { configurationOfReference, type ReferenceRun } from './reference-runs.js';
import { meanWithSpread } from './statistics.js';

export interface MeasureRatesOptions {
  /** The processes that share this machine; undefined for one alone. */
  readonly world: World | undefined;
  /** Of each process. */
  readonly numThreads: number;
  readonly runs: readonly ReferenceRun[];
  /** Told of each run before it starts. */
  readonly onRun?: (run: ReferenceRun, index: number) => void;
}

/** The first steps, in which memory is allocated and primitives are made. */
const numWarmUpSteps = 2;

/**
 * Measures what operations take on this machine while as many processes run the same: all of them call it.
 * They train small models next to each other, without communication, and then time their collectives.
 */
export async function measureRates(options: MeasureRatesOptions): Promise<MeasuredRates> {
  const { world, numThreads, runs, onRun } = options;
  const numProcesses = world?.size ?? 1;
  setThreadsOfRank(numThreads, { localSize: numProcesses });
  const samples = new Map<string, OperationSamples>();
  const passSeconds: number[] = [];
  const stepSeconds: number[] = [];
  for (const [index, run] of runs.entries()) {
    onRun?.(run, index);
    world?.group.barrier().wait();
    const { steps } = await clockedRun(run);
    for (const step of typicalSteps(steps)) {
      for (const [key, { operation, seconds }] of step.samples) {
        const known = samples.get(key);
        if (known === undefined) samples.set(key, { operation, seconds });
        else known.seconds.push(...seconds);
      }
      passSeconds.push(...step.passSeconds);
      stepSeconds.push(step.stepSeconds);
    }
  }
  return {
    numProcesses,
    numThreads,
    memoryBytes: Math.floor(totalmem() / numProcesses),
    ...measuredEntries(samples.values()),
    ...(world === undefined ? {} : { collectives: measureCollectives(world.group) }),
    host: {
      passSeconds: meanWithSpread(passSeconds).mean,
      stepSeconds: meanWithSpread(stepSeconds).mean,
    },
  };
}

async function clockedRun(run: ReferenceRun): Promise<OperationClock> {
  const configuration = configurationOfReference(run);
  const { model } = await dryRunModel(configuration);
  const clock = new OperationClock({ numWarmUpSteps });
  const { numSteps } = run;
  try {
    await dryRunRank({ configuration, scale: 1 }, { rank: 0, model, numSteps, listener: clock });
  } catch (error) {
    // one rank of several has no meaningful values
    if (!(MtlError.isInstance(error) && error.code === 'MTL_NOT_FINITE')) throw error;
  }
  return clock;
}
