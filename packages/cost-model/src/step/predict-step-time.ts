import { ConfigurationError } from '@mtl/errors';
import { type Simulation, simulateSchedule } from '@mtl/pipeline/schedules';
import { noSeconds, type PassSeconds, passSeconds } from '../timing/operations-seconds.js';
import { type ChunkOperations, type ChunkPasses, chunkOperations, chunkPasses } from './chunk-passes.js';
import { endOfStep } from './end-of-step.js';
import { byAxis, checkLayout, type GivenStepOptions, type StepOptions, scheduleOfLayout } from './layout.js';
import { messageSeconds, shardedPasses } from './pass-communication.js';

/**
 * Seconds that a step takes, by kind of work, as the mean over ranks. The sum is the duration of the step.
 */
export interface StepBreakdown extends PassSeconds {
  /** Seconds for which ranks wait for other stages. */
  bubble: number;
  optimizer: number;
}

interface PredictOptions extends StepOptions {
  /**
   * The operations of each chunk, in the order of the model, such as those that a dry run recorded. Default:
   * `chunkOperations`.
   */
  readonly operations?: readonly ChunkOperations[];
}

export interface StepPrediction {
  readonly seconds: number;
  readonly breakdown: StepBreakdown;
  /** The simulated schedule of the step, to be drawn or written as a trace. */
  readonly simulation: Simulation;
}

/**
 * Predicts how long a training step takes by simulating its schedule, with the operations of each chunk's
 * passes and their times in the profile.
 *
 * @throws ConfigurationError `MTL_PLAN_LAYOUT` for sizes that do not divide the model or the batch; the
 *   errors of `buildSchedule`
 */
export function predictStepTime(given: GivenStepOptions<PredictOptions>): StepPrediction {
  const options = byAxis(given);
  checkLayout(options);
  const { layout, profile, operations = chunkOperations(options) } = options;
  const numChunks = layout.pp * (layout.numChunks ?? 1);
  if (operations.length !== numChunks) {
    throw new ConfigurationError('MTL_PLAN_LAYOUT', `there are operations of ${operations.length} chunks`, {
      expected: `the operations of the ${numChunks} chunks of the layout`,
    });
  }
  const chunks = chunkPasses(operations, profile);
  const message = messageSeconds(options);
  const isBlocking = profile.software.pipelineMessages === 'blocking';
  const numRanks = layout.pp;
  const sharded = shardedPasses(options, chunks);
  const passMessage = isBlocking ? message : 0;
  const backward = chunks.map((chunk) => passSeconds(chunk.backward));
  const lastBackward = backward.reduce((sum, seconds) => sum + seconds, 0) / numRanks;
  const end = endOfStep(options, lastBackward);
  const schedule = scheduleOfLayout(layout);
  const simulation = simulateSchedule({
    schedule,
    times: {
      forward: chunks.map(
        (chunk, i) =>
          passSeconds(chunk.forward) + sharded[i]!.forward + (i < chunks.length - 1 ? passMessage : 0),
      ),
      backward: backward.map((seconds, i) => seconds + sharded[i]!.backward + (i > 0 ? passMessage : 0)),
      communication: isBlocking ? 0 : message,
      optimizer: end.dataCommunication + end.embeddingCommunication + end.optimizer,
    },
  });
  const numMicroBatches = schedule.numMicroBatches;
  const idle = simulation.ranks.reduce((sum, rank) => sum + rank.idle, 0) / numRanks;
  const inPasses = sharded.reduce((sum, each) => sum + each.forward + each.backward, 0) / numRanks;
  const numMessages = (2 * (chunks.length - 1) * numMicroBatches) / numRanks;
  return {
    seconds: simulation.stepTime,
    breakdown: {
      ...meanOfRanks(chunks, numMicroBatches / numRanks),
      pipelineCommunication: passMessage * numMessages + end.embeddingCommunication,
      dataCommunication: end.dataCommunication + numMicroBatches * inPasses,
      bubble: idle,
      optimizer: end.optimizer,
    },
    simulation,
  };
}

function meanOfRanks(chunks: readonly ChunkPasses[], factor: number): PassSeconds {
  const total = noSeconds();
  for (const { forward, backward } of chunks) {
    for (const key of Object.keys(total) as (keyof PassSeconds)[]) {
      total[key] += (forward[key] + backward[key]) * factor;
    }
  }
  return total;
}
