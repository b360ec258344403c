import {
  type EndsShape,
  embeddingBackward,
  embeddingForward,
  headBackward,
  headForward,
  layerBackward,
  layerForward,
} from '../operations/model-operations.js';
import type { Operation } from '../operations/operation.js';
import type { Profile } from '../profiles/profile.js';
import { noSeconds, operationsSeconds, type PassSeconds } from '../timing/operations-seconds.js';
import type { StepOptions } from './layout.js';

/** Operations that a forward or backward pass repeats `times` times, such as the operations of a layer. */
interface RepeatedOperations {
  readonly times: number;
  readonly forward: readonly Operation[];
  /** Operations of the backward pass, including recomputed operations. */
  readonly backward: readonly Operation[];
}

/** The operations on one rank for the forward and backward pass of one micro-batch on a model chunk. */
export type ChunkOperations = readonly RepeatedOperations[];

/**
 * Lists the operations of every chunk, in the order of the model, from the hand-written lists for GPT. The
 * option `operations` of `predictStepTime` can replace them by operations that a dry run recorded.
 */
export function chunkOperations({ model, layout, profile }: StepOptions): ChunkOperations[] {
  const { hardware, software } = profile;
  const { tp, pp, numChunks = 1 } = layout;
  const shape: EndsShape = {
    ...model,
    microBatchSize: layout.microBatchSize,
    tp,
    sequenceParallel: (layout.sequenceParallel ?? false) && tp > 1,
    recomputation: layout.recomputation,
    group: {
      axis: 'tp',
      size: tp,
      perNode: Math.min(tp, hardware.gpusPerNode.value),
    },
    software,
  };
  const count = pp * numChunks;
  const layers = {
    times: model.numLayers / count,
    forward: layerForward(shape),
    backward: layerBackward(shape),
  };
  const embedding = { times: 1, forward: embeddingForward(shape), backward: embeddingBackward(shape) };
  const head = { times: 1, forward: headForward(shape), backward: headBackward(shape) };
  return Array.from({ length: count }, (_, chunk) => [
    ...(chunk === 0 ? [embedding] : []),
    layers,
    ...(chunk === count - 1 ? [head] : []),
  ]);
}

/** Seconds that the forward and backward pass of one micro-batch on a model chunk take, by kind of work. */
export interface ChunkPasses {
  readonly forward: PassSeconds;
  readonly backward: PassSeconds;
}

/**
 * Returns how long the forward and backward pass of every chunk take. Operations that several chunks share
 * are timed once.
 */
export function chunkPasses(chunks: readonly ChunkOperations[], profile: Profile): ChunkPasses[] {
  const known = new Map<RepeatedOperations, ChunkPasses>();
  const timePasses = (operations: RepeatedOperations): ChunkPasses => {
    const passes = known.get(operations) ?? {
      forward: operationsSeconds(operations.forward, profile),
      backward: operationsSeconds(operations.backward, profile),
    };
    known.set(operations, passes);
    return passes;
  };
  return chunks.map((parts) => ({
    forward: sum(parts.map((part) => [timePasses(part).forward, part.times])),
    backward: sum(parts.map((part) => [timePasses(part).backward, part.times])),
  }));
}

function sum(parts: readonly (readonly [PassSeconds, number])[]): PassSeconds {
  const total = noSeconds();
  for (const [seconds, times] of parts) {
    for (const key of Object.keys(total) as (keyof PassSeconds)[]) total[key] += seconds[key] * times;
  }
  return total;
}
