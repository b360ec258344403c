import type { FoundLayout } from '@mtl/planning';
import { expect, it } from 'vitest';
import { formatSearch, launchWords, numNodesOf } from './format-search.js';

const launched = (numProcesses: number, gpusPerNode = 8): string =>
  launchWords({ program: 'gpt-train', flags: ['--bf16'], numProcesses, gpusPerNode }).join(' ');

it('starts a program on one node or on several, as many processes on each', () => {
  expect(launched(1)).toBe('gpt-train --bf16');
  expect(launched(8)).toBe('mtl run --nproc-per-node 8 gpt-train -- --bf16');
  const nodes = 'mtl run --nnodes 2 --node-rank 0 --master-addr HOST';
  expect(launched(16)).toBe(`${nodes} --nproc-per-node 8 gpt-train -- --bf16`);
  expect(launched(12)).toBe(`${nodes} --nproc-per-node 6 gpt-train -- --bf16`);
  expect(numNodesOf(15, 8)).toBe(3);
});

it('prints commands as a shell reads them, and what they lack', () => {
  const candidate = { tensor: 1, pipeline: 1, data: 16, schedule: 'none', recomputation: 'none' };
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
