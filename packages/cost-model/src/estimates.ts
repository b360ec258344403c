import { buildSchedule, oneStage, type PipelineSchedule } from '@mtl/pipeline/schedules';
import { listedMemory } from './memory/listed-memory.js';
import { chunkOperations, chunkPasses } from './step/chunk-passes.js';
import { endOfStep } from './step/end-of-step.js';
import { byAxis, type GivenStepOptions, type Layout } from './step/layout.js';
import { messageSeconds, shardedPasses } from './step/pass-communication.js';
import { passSeconds } from './timing/operations-seconds.js';

interface EstimateSecondsOptions {
  /**
   * Seconds for the forward and backward pass of one micro-batch, for each chunk in the order of the model.
   */
  readonly chunks: readonly number[];
  readonly pipeline: number;
  readonly numMicroBatches: number;
  /** Factor for the time of the pipeline's bubble: 1, or less for schedules that split the backward pass. */
  readonly bubble: number;
  /** Seconds for a message from one stage to the next. */
  readonly message: number;
  /** Seconds from the last backward pass to the end of the step. */
  readonly end: number;
}

/**
 * Estimates how long a step takes with 1F1B or the interleaved schedule. The step takes as long as its
 * slowest rank: the rank's forward and backward passes of its m micro-batches, and one forward and backward
 * pass of each other rank while the pipeline fills and drains (Narayanan et al. 2021, section 2.2).
 */
export function estimateSeconds(options: EstimateSecondsOptions): number {
  const { chunks, pipeline: p, numMicroBatches: m, bubble, message, end } = options;
  const perRank = Array.from({ length: p }, (_, rank) =>
    chunks.reduce((sum, seconds, chunk) => (chunk % p === rank ? sum + seconds : sum), 0),
  );
  const slowest = Math.max(...perRank);
  const v = chunks.length / p;
  const all = chunks.reduce((sum, seconds) => sum + seconds, 0);
  return m * slowest + (bubble * (all - slowest)) / v + 2 * (p - 1) * message + end;
}

/**
 * The time and memory that a layout is estimated to need, precise enough to exclude layouts that cannot be
 * among the best.
 */
export interface LayoutEstimate {
  readonly seconds: number;
  /** Bytes on the rank with the most memory. */
  readonly memoryBytes: number;
}

/** Estimates steps from operation lists, without simulating their schedules. */
export class ListedEstimates {
  /**
   * A cache of schedules, keyed by the sizes that determine a schedule. The layouts of a search need only a
   * few schedules.
   */
  readonly #schedules = new Map<string, PipelineSchedule>();

  estimate(given: GivenStepOptions): LayoutEstimate {
    const options = byAxis(given);
    const { layout, profile } = options;
    const { pp: pipeline, globalBatchSize, microBatchSize, dp } = layout;
    const numMicroBatches = globalBatchSize / microBatchSize / dp;
    const passes = chunkPasses(chunkOperations(options), profile);
    const backward = passes.reduce((sum, each) => sum + passSeconds(each.backward), 0) / pipeline;
    const end = endOfStep(options, backward);
    const message = messageSeconds(options);
    const sharded = shardedPasses(options, passes);
    const isBlocking = profile.software.pipelineMessages === 'blocking';
    const seconds = estimateSeconds({
      chunks: passes.map(
        ({ forward, backward: after }, chunk) =>
          passSeconds(forward) +
          passSeconds(after) +
          sharded[chunk]!.forward +
          sharded[chunk]!.backward +
          (isBlocking ? message * (Number(chunk > 0) + Number(chunk < passes.length - 1)) : 0),
      ),
      pipeline,
      numMicroBatches,
      bubble: 1,
      message: isBlocking ? 0 : message,
      end: end.dataCommunication + end.embeddingCommunication + end.optimizer,
    });
    const memories = listedMemory(options, this.#shortSchedule(layout, numMicroBatches));
    const bytes = memories.map((memory) =>
      Object.values(memory).reduce((sum: number, part: number) => sum + part, 0),
    );
    return { seconds, memoryBytes: Math.max(...bytes) };
  }

  /** Returns a schedule with fewer micro-batches and the same number in flight at once. */
  #shortSchedule(layout: Layout, numMicroBatches: number): PipelineSchedule {
    const { pp: numStages, numChunks = 1 } = layout;
    if (numStages === 1) return oneStage(1);
    if (typeof layout.schedule === 'object') return layout.schedule;
    const name = layout.schedule ?? (numChunks > 1 ? 'interleaved' : '1f1b');
    const isBounded = name === '1f1b' || name === 'interleaved';
    const count = isBounded ? Math.min(numMicroBatches, 2 * numStages) : numMicroBatches;
    const key = `${name} ${numStages} ${numChunks} ${count}`;
    const schedule =
      this.#schedules.get(key) ?? buildSchedule(name, { numStages, numMicroBatches: count, numChunks });
    this.#schedules.set(key, schedule);
    return schedule;
  }
}
