import { SingleProcessGroup } from '@mtl/comm';
import { expect, it } from 'vitest';
import { layoutOfRecord, leastProcesses, modelSharing, recordedSizes } from './strategies.js';

it('shards rows of layers in a run that asks for it, and not for a trained model', () => {
  const tp = new SingleProcessGroup('tp');
  const isSequenceParallel = (parallel?: object) =>
    modelSharing({ groups: { tp }, ...(parallel && { parallel }) }).tensorParallel?.sequenceParallel;
  expect(isSequenceParallel({ sequenceParallel: true })).toBe(true);
  expect(isSequenceParallel()).toBe(false);
  expect(modelSharing({ groups: {} }).tensorParallel).toBeUndefined();
});

it('records sizes under keys from which the layout follows again', () => {
  const layout = {
    tensorModelParallelSize: 2,
    contextParallelSize: 4,
    pipelineModelParallelSize: 3,
    dataParallelSize: 1,
    expertModelParallelSize: 8,
    expertTensorParallelSize: 1,
  };
  const sizes = { tensor: 2, context: 4, pipeline: 3, data: 1, expert: 8, expertTensor: 1 };
  expect(recordedSizes(layout)).toEqual(sizes);
  expect(layoutOfRecord(sizes)).toEqual(layout);
});

it.each([
  [{}, 1],
  [{ 'tensor-model-parallel-size': 2, 'pipeline-model-parallel-size': 3 }, 6],
  // experts take the processes of copies
  [{ 'tensor-model-parallel-size': 2, 'expert-model-parallel-size': 4 }, 8],
  [
    {
      'tensor-model-parallel-size': 2,
      'context-parallel-size': 3,
      'expert-model-parallel-size': 4,
      'expert-tensor-parallel-size': 1,
    },
    12,
  ],
])('needs %o processes at least: %i', (flags, least) => {
  expect(leastProcesses(flags)).toBe(least);
});
