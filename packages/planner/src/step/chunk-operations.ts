import {
  type EndsShape,
  embeddingBackward,
  embeddingForward,
  headBackward,
  headForward,
} from '../operations/ends-operations.js';
import { layerBackward, layerForward } from '../operations/layer-operations.js';
import type { Operation } from '../operations/operation.js';
import type { StepOptions } from './step-options.js';

/** Operations that a pass runs so many times, such as those of a layer. */
export interface RepeatedOperations {
  readonly times: number;
  readonly forward: readonly Operation[];
  /** With what is recomputed before. */
  readonly backward: readonly Operation[];
}

/** What the passes of one micro-batch on a chunk of the model run on one rank. */
export type ChunkOperations = readonly RepeatedOperations[];

/**
 * The operations of every chunk, in the order of the model, made by hand for GPT. What a dry run records can
 * take their place: see `operations` of `predictStepTime`.
 */
export function chunkOperations({ model, layout, profile }: StepOptions): ChunkOperations[] {
  const { hardware, software } = profile;
  const { tensorParallelSize, pipelineParallelSize, numChunks = 1 } = layout;
  const shape: EndsShape = {
    ...model,
    microBatchSize: layout.microBatchSize,
    tensorParallelSize,
    sequenceParallel: (layout.sequenceParallel ?? false) && tensorParallelSize > 1,
    recomputation: layout.recomputation,
    group: {
      axis: 'tensor',
      size: tensorParallelSize,
      perNode: Math.min(tensorParallelSize, hardware.gpusPerNode.value),
    },
    software,
  };
  const count = pipelineParallelSize * numChunks;
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
