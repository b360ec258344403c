import { type GroupOptions, MetaWorld } from '@mtl/comm';
import { expect, it } from 'vitest';
import { TrainingProcesses } from './training-processes.js';

/**
 * Returns the communicators that one of 8 ranks opens, except the world communicator, as names and members.
 */
function listCommunicators(
  rank: number,
  sizes: Readonly<Record<'tensor' | 'pipeline' | 'data', number>>,
): string[] {
  const world = new MetaWorld({ rank, size: 8 });
  const created: GroupOptions[] = [];
  const createGroup = (options: GroupOptions) => {
    created.push(options);
    return world.createGroup(options);
  };
  const nothing = (): void => {};
  const ends = { abort: nothing, close: nothing, [Symbol.dispose]: nothing };
  const noting = { rank, size: 8, group: world.group, createGroup, ...ends };
  const { tensor, pipeline, data } = sizes;
  const parallel = {
    tensorModelParallelSize: tensor,
    pipelineModelParallelSize: pipeline,
    dataParallelSize: data,
  };
  const processes = new TrainingProcesses({ world: noting, parallel });
  expect(Object.keys(processes.groups).length).toBeGreaterThan(created.length);
  return created.filter(({ ranks }) => ranks.length > 1).map(({ name, ranks }) => `${name} ${ranks}`);
}

it.each([
  { sizes: { tensor: 2, pipeline: 2, data: 2 }, opened: ['tp 6,7', 'pp 3,7', 'dp 5,7'] },
  { sizes: { tensor: 1, pipeline: 4, data: 2 }, opened: ['pp 1,3,5,7', 'embedding 1,7', 'dp 6,7'] },
  { sizes: { tensor: 8, pipeline: 1, data: 1 }, opened: ['tp 0,1,2,3,4,5,6,7'] },
])('opens the communicators that a run with $sizes uses, and no more', ({ sizes, opened }) => {
  expect(listCommunicators(7, sizes)).toEqual(opened);
});
