import { SingleProcessGroup } from '@mtl/comm';
import { ProcessMesh } from '@mtl/layout';
import { expect, it } from 'vitest';
import {
  dependsOnRouting,
  distinctRanks,
  layoutOfRecord,
  leastProcesses,
  modelSharing,
  numSharesOfBatch,
  rankLike,
  recordedSizes,
  strategyFlagsOfTasks,
  switchesThatSave,
} from './strategies.js';

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
  // experts are sharded over data-parallel processes
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

it('finds the ranks that differ, and for every rank the one that takes the same', () => {
  const mesh = new ProcessMesh({ tp: 4, dp: 2, pp: 3 });
  // the first and the last stage each have two representatives, their first and their last tensor-parallel
  // rank; the stage between them has one representative
  expect(distinctRanks(mesh)).toEqual([0, 3, 8, 16, 19]);
  expect([0, 1, 3, 4, 7].map((rank) => rankLike(mesh, rank))).toEqual([0, 0, 3, 0, 3]);
  expect([8, 11, 15, 18, 23].map((rank) => rankLike(mesh, rank))).toEqual([8, 8, 8, 16, 19]);
  expect(distinctRanks(new ProcessMesh())).toEqual([0]);
});

it('divides batches over copies of the model, not over ranks that share sequences', () => {
  const layout = { tensorModelParallelSize: 2, contextParallelSize: 2, pipelineModelParallelSize: 1 };
  expect(numSharesOfBatch({ ...layout, dataParallelSize: 3 })).toBe(3);
});

it('knows where memory depends on the routing of tokens', () => {
  expect(dependsOnRouting({ expertModelParallelSize: 2 } as never)).toBe(true);
  expect(dependsOnRouting({ expertModelParallelSize: 1 } as never)).toBe(false);
  expect(dependsOnRouting({} as never)).toBe(false);
});

it('lists the switches that save memory, the cheapest first', () => {
  expect(switchesThatSave).toEqual(['use-distributed-optimizer', 'sequence-parallel']);
});

it('gives models with heads of tasks no flag of experts or of divided sequences', () => {
  expect(Object.keys(strategyFlagsOfTasks).filter((name) => /expert|moe|context|cp/.test(name))).toEqual([]);
  expect(strategyFlagsOfTasks).toHaveProperty('tensor-model-parallel-size');
});
