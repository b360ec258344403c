import { listMembers } from '@mtl/layout';
import { expect, it } from 'vitest';
import { configure, withFlags } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';
import { parseFlags } from '../command-line/parse-flags.js';
import { validateConfiguration } from '../validation/validate-configuration.js';
import { groupsOfRun, layoutText, meshOfRun } from './strategies.js';

const configureParallel = (line: string, worldSize: number) => configure(withFlags(line), worldSize).parallel;

it('divides sequences over other processes than data', () => {
  const line = '--context-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel';
  const parallel = configureParallel(line, 8);
  expect(parallel).toMatchObject({ contextParallelSize: 2, cpCommType: ['p2p'], dataParallelSize: 2 });
  expect(meshOfRun(parallel).sizes).toMatchObject({ tp: 2, cp: 2, dp: 2, pp: 1 });
  expect(layoutText(parallel)).toBe('tensor 2 x context 2 x pipeline 1 x data 2');
});

it('has a group for keys, and gradients are summed over it as over copies', () => {
  const mesh = meshOfRun(configureParallel('--context-parallel-size 2', 4));
  expect(groupsOfRun(mesh)).toMatchObject({
    cp: { declaration: ['cp'], countsAs: 'cp' },
    dp: { declaration: ['dp'] },
    dense: { declaration: ['cp', 'dp'], countsAs: 'dp' },
  });
});

it('takes one word for all layers, or one for each', () => {
  const configureComm = (words: string) =>
    configureParallel(`--context-parallel-size 2 --cp-comm-type ${words}`, 2).cpCommType;
  expect(configureComm('all_gather')).toEqual(['all_gather']);
  expect(configureComm('a2a p2p p2p a2a')).toEqual(['a2a', 'p2p', 'p2p', 'a2a']);
});

it('has groups of two levels, of blocks of neighbours and across them', () => {
  const line = '--context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2';
  const parallel = configureParallel(`${line} --tensor-model-parallel-size 2`, 8);
  expect(parallel.hierarchicalContextParallelSizes).toEqual([2, 2]);
  const mesh = meshOfRun(parallel);
  const { cpHeads, cpRing } = groupsOfRun(mesh, { parallel });
  const members = (group: typeof cpHeads) =>
    Array.from({ length: 8 }, (_, rank) => listMembers(group!.declaration, { mesh, rank }).join(' '));
  expect(new Set(members(cpHeads))).toEqual(new Set(['0 2', '4 6', '1 3', '5 7']));
  expect(new Set(members(cpRing))).toEqual(new Set(['0 4', '2 6', '1 5', '3 7']));
  expect(
    configure(withFlags('--context-parallel-size 2 --hierarchical-context-parallel-sizes 2 1'), 2).notices,
  ).toEqual(['--hierarchical-context-parallel-sizes has no effect without --cp-comm-type a2a+p2p']);
});

it('is no part of a run whose sequences are whole', () => {
  const { parallel, notices } = configure(withFlags('--context-parallel-size 1'), 2);
  expect(Object.keys(parallel).filter((key) => /context|cp/i.test(key))).toEqual([]);
  expect(notices).toEqual([]);
  expect(configure(withFlags('--cp-comm-type a2a'), 2).notices).toEqual([
    '--cp-comm-type has no effect with --context-parallel-size 1',
  ]);
});

it('lets the distributed optimizer divide states over processes that share sequences', () => {
  const line = '--context-parallel-size 2 --use-distributed-optimizer';
  expect(configure(withFlags(line), 2).notices).toEqual([]);
});

it('divides the rows of a BERT, whatever the length of its sequences', () => {
  const line = '--context-parallel-size 4 --seq-length 126 --preset bert-base'.split(' ');
  const { parallel } = validateConfiguration(parseFlags(line, { model: 'bert' }), { worldSize: 4 });
  expect(parallel.contextParallelSize).toBe(4);
});

refusals(
  [
    [
      '--context-parallel-size 3',
      3,
      'MTL_CONTEXT_PARALLEL_SIZE',
      /--context-parallel-size 3 does not divide --seq-length 32 into two chunks.*expected 2 or 4, or a --seq-length that is a multiple of 6/,
    ],
    [
      '--context-parallel-size 32 --tensor-model-parallel-size 4 --sequence-parallel',
      128,
      'MTL_CONTEXT_PARALLEL_SIZE',
      /expected 8, or a --seq-length that is a multiple of 256/,
    ],
    [
      '--context-parallel-size 2 --cp-comm-type p2p a2a p2p',
      2,
      'MTL_CONTEXT_PARALLEL_SIZE',
      /is 3 words for 4 layers; expected one word, or 4/,
    ],
    [
      '--context-parallel-size 8 --cp-comm-type a2a',
      8,
      'MTL_CONTEXT_PARALLEL_SIZE',
      /8 does not divide --num-attention-heads 4: with a2a .* expected 4, or another --cp-comm-type/,
    ],
    [
      '--context-parallel-size 4 --cp-comm-type a2a --tensor-model-parallel-size 2',
      8,
      'MTL_CONTEXT_PARALLEL_SIZE',
      /over 2 tensor-parallel ranks: with a2a .*expected 2, or/,
    ],
    [
      '--context-parallel-size 4 --cp-comm-type a2a+p2p',
      4,
      'MTL_CONTEXT_PARALLEL_SIZE',
      /--cp-comm-type a2a\+p2p needs --hierarchical-context-parallel-sizes/,
    ],
    [
      '--context-parallel-size 8 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2',
      8,
      'MTL_CONTEXT_PARALLEL_SIZE',
      /2 2 are no two sizes whose product is --context-parallel-size 8/,
    ],
    [
      '--context-parallel-size 8 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 8 1',
      8,
      'MTL_CONTEXT_PARALLEL_SIZE',
      /the first of --hierarchical-context-parallel-sizes 8 1 does not divide --num-attention-heads 4/,
    ],
    ['--context-parallel-size 4', 2, 'MTL_WORLD_SIZE', /tensor x context x pipeline.*= 4/],
    [
      '--context-parallel-size 2 --cuda-graphs --device cuda',
      2,
      'MTL_CUDA_GRAPHS',
      /--cuda-graphs with --context-parallel-size 2: passes contain communication/,
    ],
  ],
  { numAdvised: 6 },
);
