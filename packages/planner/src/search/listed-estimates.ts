import { buildSchedule, oneStage, type PipelineSchedule } from '@mtl/pipeline/schedules';
import { listedMemory } from '../memory/listed-memory.js';
import { chunkOperations } from '../step/chunk-operations.js';
import { chunkPasses } from '../step/chunk-passes.js';
import { endOfStep } from '../step/end-of-step.js';
import { messageSeconds } from '../step/message-seconds.js';
import { shardedPasses } from '../step/sharded-passes.js';
import type { Layout, StepOptions } from '../step/step-options.js';
import { passSeconds } from '../timing/operations-seconds.js';
import { estimateSeconds } from './estimate-seconds.js';

/** What a layout takes, near enough to leave out those that cannot be among the best. */
export interface LayoutEstimate {
  readonly seconds: number;
  /** Of the fullest rank. */
  readonly memoryBytes: number;
}

/** Estimates steps whose operations are listed, without their schedules on a clock. */
export class ListedEstimates {
  /** By what they depend on: the layouts of a search share few. */
  readonly #schedules = new Map<string, PipelineSchedule>();

  estimate(options: StepOptions): LayoutEstimate {
    const { layout, profile } = options;
    const { pipelineParallelSize: pipeline, globalBatchSize, microBatchSize, dataParallelSize } = layout;
    const numMicroBatches = globalBatchSize / microBatchSize / dataParallelSize;
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

  /** A schedule with as many micro-batches as there are in flight at most. */
  #shortSchedule(layout: Layout, numMicroBatches: number): PipelineSchedule {
    const { pipelineParallelSize: numStages, numChunks = 1 } = layout;
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
