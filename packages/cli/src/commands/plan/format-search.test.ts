import type { FoundLayout } from '@mtl/planning';
import { expect, it } from 'vitest';
import { chooseNumNodes, formatSearch, launchWords, recordedLayout } from './format-search.js';

/** Default settings, which are not printed. */
const usual = { recomputation: 'none', dataParallelShardingStrategy: 'no_shard', sequenceParallel: false };

const launched = (numProcesses: number, gpusPerNode = 8): string =>
  launchWords({ program: 'gpt-train', flags: ['--bf16'], numProcesses, gpusPerNode }).join(' ');

it('starts a program on one node or on several, with the same number of processes on each', () => {
  expect(launched(1)).toBe('gpt-train --bf16');
  expect(launched(8)).toBe('mtl run --nproc-per-node 8 gpt-train -- --bf16');
  const nodes = 'mtl run --nnodes 2 --node-rank 0 --master-addr HOST';
  expect(launched(16)).toBe(`${nodes} --nproc-per-node 8 gpt-train -- --bf16`);
  expect(launched(12)).toBe(`${nodes} --nproc-per-node 6 gpt-train -- --bf16`);
  expect(chooseNumNodes(15, 8)).toBe(3);
});

it('prints commands as a shell reads them, and what they lack', () => {
  const candidate = { tensor: 1, pipeline: 1, data: 16, schedule: 'none', ...usual };
  const plan = { iterationSeconds: 1, teraflopsPerGpu: 1, ranks: [{ memoryBytes: 1 }] };
  const text = formatSearch(
    { numCandidates: 1, numFitting: 1, layouts: [{ candidate, plan, words: [] } as unknown as FoundLayout] },
    {
      commandWith: () => ['gpt-train', '--data-path', 'my data'],
      accuracy: 'predicted, not measured',
      numNodes: 2,
      missing: ['--lr'],
    },
  );
  expect(text).toContain("\n   gpt-train --data-path 'my data'\n");
  expect(text).toContain('\npredicted, not measured\n');
  expect(text).toContain('\non 2 nodes: start the command on each');
  expect(text).toContain('\nadd --lr: ');
});

it('names all axes of a layout in its heading', () => {
  const plan = { iterationSeconds: 1, teraflopsPerGpu: 1, ranks: [{ memoryBytes: 1 }] };
  const formatHeading = (sizes: object): string | undefined => {
    const candidate = { pipeline: 2, data: 4, microBatch: 1, schedule: '1f1b', chunks: 1, ...sizes };
    const layouts = [{ candidate, plan, words: [] } as unknown as FoundLayout];
    return formatSearch(
      { numCandidates: 1, numFitting: 1, layouts },
      { commandWith: () => [], accuracy: '', numNodes: 1, missing: [] },
    )
      .split('\n')
      .find((line) => line.startsWith('1. '));
  };
  expect(formatHeading({ tensor: 2, ...usual })).toBe(
    '1. tensor 2 x pipeline 2 x data 4, 1f1b, micro-batch 1',
  );
  expect(formatHeading({ tensor: 2, context: 4, expert: 8, expertTensor: 1, ...usual })).toBe(
    '1. tensor 2 x context 4 x pipeline 2 x data 4, expert 8, 1f1b, micro-batch 1',
  );
  expect(formatHeading({ tensor: 2, expert: 1, expertTensor: 2, ...usual })).toBe(
    '1. tensor 2 x pipeline 2 x data 4, 1f1b, micro-batch 1, each expert shared by 2',
  );
  expect(
    formatHeading({ tensor: 2, ...usual, sequenceParallel: true, dataParallelShardingStrategy: 'optim' }),
  ).toBe(
    '1. tensor 2 x pipeline 2 x data 4, 1f1b, micro-batch 1, sequence parallelism, distributed optimizer',
  );
});

it.each([
  ['no_shard', false],
  ['optim', true],
])('keeps the keys of JSON for the store %s', (dataParallelShardingStrategy, distributedOptimizer) => {
  const candidate = { tensor: 2, sequenceParallel: true, dataParallelShardingStrategy, expert: 4 };
  expect(Object.entries(recordedLayout({ candidate } as unknown as FoundLayout))).toEqual([
    ['tensor', 2],
    ['sequenceParallel', true],
    ['distributedOptimizer', distributedOptimizer],
    ['expert', 4],
  ]);
});
