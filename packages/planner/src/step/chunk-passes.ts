import {
  type EndsShape,
  embeddingBackward,
  embeddingForward,
  headBackward,
  headForward,
} from '../operations/ends-operations.js';
import { layerBackward, layerForward } from '../operations/layer-operations.js';
import { operationsSeconds, type PassSeconds } from '../timing/operations-seconds.js';
import type { StepOptions } from './step-options.js';

/** Seconds of the passes of one micro-batch on a chunk of the model, by what they are spent on. */
export interface ChunkPasses {
  readonly forward: PassSeconds;
  readonly backward: PassSeconds;
}

/** Of every chunk, in the order of the model. */
export function chunkPasses({ model, layout, profile }: StepOptions): ChunkPasses[] {
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
  const seconds = (operations: Parameters<typeof operationsSeconds>[0]) =>
    operationsSeconds(operations, profile);
  const count = pipelineParallelSize * numChunks;
  const layers = model.numLayers / count;
  const layer = { forward: seconds(layerForward(shape)), backward: seconds(layerBackward(shape)) };
  const embedding = {
    forward: seconds(embeddingForward(shape)),
    backward: seconds(embeddingBackward(shape)),
  };
  const head = { forward: seconds(headForward(shape)), backward: seconds(headBackward(shape)) };
  return Array.from({ length: count }, (_, chunk) => {
    const parts: (readonly [typeof layer, number])[] = [[layer, layers]];
    if (chunk === 0) parts.push([embedding, 1]);
    if (chunk === count - 1) parts.push([head, 1]);
    return { forward: sum(parts, 'forward'), backward: sum(parts, 'backward') };
  });
}

function sum(parts: readonly (readonly [ChunkPasses, number])[], pass: keyof ChunkPasses): PassSeconds {
  const total: PassSeconds = { matmuls: 0, attention: 0, kernels: 0, tensorCommunication: 0, host: 0 };
  for (const [passes, times] of parts) {
    for (const key of Object.keys(total) as (keyof PassSeconds)[]) total[key] += passes[pass][key] * times;
  }
  return total;
}
