import { expect, it } from 'vitest';
import { recordsPasses } from './model-part.js';

const alone = {
  cudaGraphs: true,
  numMicroBatches: 1,
  reducedBy: 'overlap-grad-reduce',
  releasesMemory: false,
};

it.each([
  ['the last of several micro-batches starts reductions', { ...alone, numMicroBatches: 2 }, true],
  ['reductions wait for the step, or there are none', { ...alone, reducedBy: undefined }, true],
  ['it was not asked for', { ...alone, cudaGraphs: false }, false],
])('passes are recorded or not, without a word, where %s', (_, options, expected) => {
  const said: string[] = [];
  expect(recordsPasses({ ...options, onMessage: (text) => said.push(text) })).toBe(expected);
  expect(said).toEqual([]);
});

it('passes that write sharded gradients are not recorded, and that is said', () => {
  const said: string[] = [];
  const options = { ...alone, numMicroBatches: 2, releasesMemory: true };
  expect(recordsPasses({ ...options, onMessage: (text) => said.push(text) })).toBe(false);
  expect(said).toEqual(['--cuda-graphs has no effect where gradients are sharded: their memory changes']);
});

it('passes that all start reductions are not recorded, and that is said', () => {
  const said: string[] = [];
  expect(recordsPasses({ ...alone, onMessage: (text) => said.push(text) })).toBe(false);
  expect(said).toEqual(['--cuda-graphs has no effect with --overlap-grad-reduce and one micro-batch a step']);
});
