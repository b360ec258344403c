import { listMembers } from '@mtl/layout';
import { storeOfStrategy, stores } from '@mtl/optimizer';
import { expect, it } from 'vitest';
import { configure, withFlags } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';
import { resolveFlags } from '../command-line/resolve-flags.js';
import { configure as configureOptions } from '../options/configure.js';
import { FlagReader } from '../validation/flag-reader.js';
import {
  groupsOfRun,
  layoutText,
  meshOfRun,
  optimizerSharing,
  savingsOfLayout,
  searchedSettings,
  undivided,
} from './strategies.js';

const configureParallel = (line: string, worldSize = 2) => configure(withFlags(line), worldSize).parallel;

it.each([
  ['', 'no_shard', false],
  ['--use-distributed-optimizer', 'optim', true],
  ['--no-use-distributed-optimizer', 'no_shard', false],
  ['--data-parallel-sharding-strategy no_shard', 'no_shard', false],
  ['--data-parallel-sharding-strategy optim', 'optim', true],
  ['--data-parallel-sharding-strategy optim --use-distributed-optimizer', 'optim', true],
  ['--data-parallel-sharding-strategy no_shard --no-use-distributed-optimizer', 'no_shard', false],
  ['--use-megatron-fsdp', 'optim_grads_params', true],
  ['--use-torch-fsdp2', 'optim_grads_params', true],
  ['--use-megatron-fsdp --use-distributed-optimizer', 'optim_grads_params', true],
  ['--data-parallel-sharding-strategy optim_grads_params', 'optim_grads_params', true],
  ['--use-megatron-fsdp --data-parallel-sharding-strategy optim', 'optim', true],
  ['--use-megatron-fsdp --data-parallel-sharding-strategy no_shard', 'no_shard', false],
] as const)('chooses a store by its name or by a switch: %s', (line, name, isDistributed) => {
  const parallel = configureParallel(line);
  expect(parallel).toMatchObject({
    dataParallelShardingStrategy: name,
    useDistributedOptimizer: isDistributed,
  });
  expect(optimizerSharing(parallel).store).toBe(storeOfStrategy(name));
});

it('takes the name of a store as a typed option, too', () => {
  const configureLayout = (layout: object) =>
    configureOptions({ preset: 'char-10m', layout }, { worldSize: 2 }).parallel.dataParallelShardingStrategy;
  expect(configureLayout({ dataParallelShardingStrategy: 'optim' })).toBe('optim');
  expect(configureLayout({ useDistributedOptimizer: true })).toBe('optim');
  expect(configureLayout({ useDistributedOptimizer: false })).toBe('no_shard');
});

it('has the overlap of gathers with a store by its name', () => {
  const line = '--data-parallel-sharding-strategy optim --overlap-param-gather';
  expect(optimizerSharing(configureParallel(line))).toMatchObject({ overlapParameterGather: true });
});

it('says that a store changes nothing for one process', () => {
  const listNotices = (name: string) =>
    configure(withFlags(`--data-parallel-sharding-strategy ${name}`), 1).notices;
  expect(listNotices('optim')).toEqual([
    '--data-parallel-sharding-strategy has no effect with one data-parallel rank',
  ]);
  expect(listNotices('no_shard')).toEqual([]);
});

it.each([
  ['use-distributed-optimizer', true, 'data-parallel-sharding-strategy', 'no_shard'],
  ['use-distributed-optimizer', false, 'data-parallel-sharding-strategy', 'optim'],
  ['data-parallel-sharding-strategy', 'no_shard', 'use-distributed-optimizer', true],
] as const)('lets the command line replace --%s %s of a file by --%s %s', (weaker, before, flag, value) => {
  const resolved = resolveFlags({
    file: { path: 'run.yaml', values: new Map([[weaker, before]]), notices: [] } as never,
    given: new Map([[flag, value]]),
    preset: 'char-10m',
  });
  const given = new FlagReader(resolved);
  expect(given.get(flag)).toBe(value);
  expect(given.isDefault(weaker)).toBe(true);
});

it('selects a store by each name of Megatron-LM', () => {
  const divided = ['no_shard', 'optim', 'optim_grads', 'optim_grads_params'].map((name) => {
    const parallel = configureParallel(`--data-parallel-sharding-strategy ${name}`);
    return [optimizerSharing(parallel).store.divides, parallel.useDistributedOptimizer];
  });
  expect(divided).toEqual([
    [[], false],
    [['optimizer'], true],
    [['optimizer', 'gradients'], true],
    [['optimizer', 'gradients', 'parameters'], true],
  ]);
});

const experts = '--num-experts 8 --expert-model-parallel-size 2';

it.each([
  ['--num-distributed-optimizer-instances 1', 4, undefined],
  ['--num-distributed-optimizer-instances 2 --use-distributed-optimizer', 4, 2],
  ['--num-distributed-optimizer-instances 4 --data-parallel-sharding-strategy optim_grads', 4, 4],
  ['--num-distributed-optimizer-instances 2 --use-megatron-fsdp', 4, 2],
  // context-parallel ranks sum gradients too
  ['--num-distributed-optimizer-instances 4 --use-megatron-fsdp --context-parallel-size 2', 4, 4],
  [`--num-distributed-optimizer-instances 2 --use-megatron-fsdp ${experts}`, 4, 2],
])('takes a number of instances: %s', (line, worldSize, numInstances) => {
  const parallel = configureParallel(line, worldSize);
  expect(parallel.numDistributedOptimizerInstances).toBe(numInstances);
  expect('numDistributedOptimizerInstances' in parallel).toBe(numInstances !== undefined);
  expect(layoutText(parallel).endsWith(`, states in ${numInstances} instances`)).toBe(
    numInstances !== undefined,
  );
});

it('makes blocks of neighbours instances, and groups of the ranks with the same shares', () => {
  const listGroups = (line: string, rank: number) => {
    const parallel = configureParallel(`--use-distributed-optimizer ${line}`, 8);
    const mesh = meshOfRun(parallel);
    const groups = groupsOfRun(mesh, { parallel });
    return ['dp', 'dense', 'dpInstances', 'expert', 'edpInstances'].map((role) => {
      const group = groups[role];
      expect(group?.countsAs ?? 'dp').toBe('dp');
      return group && listMembers(group.declaration, { mesh, rank });
    });
  };
  const all = [0, 1, 2, 3, 4, 5, 6, 7];
  expect(listGroups('', 5)).toEqual([all, all, undefined, all, undefined]);
  const two = '--num-distributed-optimizer-instances 2';
  expect(listGroups(two, 5)).toEqual([all, [4, 5, 6, 7], [1, 5], [4, 5, 6, 7], [1, 5]]);
  expect(listGroups(`${two} --tensor-model-parallel-size 2`, 5)).toEqual([
    [1, 3, 5, 7],
    [5, 7],
    [1, 5],
    [5, 7],
    [1, 5],
  ]);
  expect(listGroups(`${two} --context-parallel-size 2`, 5)).toEqual([
    [1, 3, 5, 7],
    [4, 5, 6, 7],
    [1, 5],
    [4, 5, 6, 7],
    [1, 5],
  ]);
  expect(listGroups(`${two} ${experts}`, 5)).toEqual([all, [4, 5, 6, 7], [1, 5], [5, 7], [1, 5]]);
});

refusals(
  [
    [
      '--num-distributed-optimizer-instances 2',
      2,
      'MTL_FLAG_NEEDS',
      /has instances only of a store that divides states over ranks; expected --use-distributed-optimizer/,
    ],
    [
      '--num-distributed-optimizer-instances 2 --data-parallel-sharding-strategy no_shard',
      2,
      'MTL_FLAG_NEEDS',
      /--num-distributed-optimizer-instances 2 .*add --use-distributed-optimizer or leave/s,
    ],
    [
      '--num-distributed-optimizer-instances 3 --use-distributed-optimizer',
      4,
      'MTL_OPTIMIZER_INSTANCES',
      /3 does not divide the 4 ranks that sum gradients \(data 4\); expected 2 or 4/,
    ],
    [
      `--num-distributed-optimizer-instances 4 --use-megatron-fsdp ${experts}`,
      4,
      'MTL_OPTIMIZER_INSTANCES',
      /4 does not divide the 2 ranks with copies of the same experts; expected 2/,
    ],
    [
      '--use-distributed-optimizer --data-parallel-sharding-strategy no_shard',
      2,
      'MTL_FLAG_CONFLICT',
      /no_shard divides no optimizer state.*leave one of the flags out; --data-parallel-sharding-strategy optim means --use-distributed-optimizer/s,
    ],
    [
      '--no-use-distributed-optimizer --data-parallel-sharding-strategy optim',
      2,
      'MTL_FLAG_CONFLICT',
      /optim divides optimizer state.*no_shard means --no-use-distributed-optimizer/s,
    ],
    [
      '--no-use-distributed-optimizer --use-megatron-fsdp',
      2,
      'MTL_FLAG_CONFLICT',
      /optim_grads_params divides optimizer state/,
    ],
    [
      '--optimizer dist_muon --data-parallel-sharding-strategy no_shard',
      2,
      'MTL_FLAG_CONFLICT',
      /--use-distributed-optimizer \(command line: --optimizer dist_muon\)/,
    ],
    [
      '--data-parallel-sharding-strategy no_shard --overlap-param-gather',
      2,
      'MTL_FLAG_NEEDS',
      /has parameters to gather only when they are split/,
    ],
  ],
  { numAdvised: 2 },
);

it('lets a search try every store, those that reduce gradients once first, with its flags', () => {
  const setting = searchedSettings.find(({ key }) => key === 'dataParallelShardingStrategy')!;
  const sizes = { tp: 1, cp: 1, dp: 2, pp: 1, etp: 1, ep: 1, edp: 2 };
  const tried = setting.choices(sizes, {});
  expect(tried).toEqual(['optim', 'no_shard', 'optim_grads', 'optim_grads_params']);
  expect(tried).toHaveLength(Object.keys(stores).length);
  expect(setting.choices({ ...sizes, dp: 1 }, {})).toEqual(['no_shard']);
  for (const value of tried) {
    const flags = Object.entries(setting.flags(value)).map(([flag, on]) =>
      on === true ? `--${flag}` : `--${flag} ${on}`,
    );
    expect(configureParallel(flags.join(' ')).dataParallelShardingStrategy).toBe(value);
  }
});

it('reads the store that flags mean, and leaves it open where fully sharded parameters are turned off', () => {
  const setting = searchedSettings.find(({ key }) => key === 'dataParallelShardingStrategy')!;
  expect(setting.given('use-megatron-fsdp', true)).toBe('optim_grads_params');
  expect(setting.given('use-megatron-fsdp', false)).toBeUndefined();
  expect(setting.given('use-distributed-optimizer', false)).toBe('no_shard');
});

it('lets a search overlap what a store communicates once a step, and nothing else', () => {
  const sizes = { tp: 1, cp: 1, dp: 2, pp: 1, etp: 1, ep: 1, edp: 2 };
  const overlapped = (dataParallelShardingStrategy: string, dp = 2): string[] =>
    searchedSettings
      .filter(({ key }) => key.startsWith('overlap'))
      .filter(({ choices }) => choices({ ...sizes, dp }, { dataParallelShardingStrategy }).includes(true))
      .map(({ flags }) => Object.keys(flags(true)).join(' '));
  expect(overlapped('no_shard')).toEqual(['overlap-grad-reduce']);
  expect(overlapped('optim')).toEqual(['overlap-grad-reduce', 'overlap-param-gather']);
  expect(overlapped('optim_grads')).toEqual(['overlap-param-gather']);
  expect(overlapped('optim_grads_params')).toEqual([]);
  expect(overlapped('optim', 1)).toEqual([]);
});

it('knows which changes of a layout save memory', () => {
  const listSavings = (line: string, worldSize: number) =>
    savingsOfLayout(configureParallel(line, worldSize), { hasExperts: false }).map(({ values }) => values);
  expect(listSavings('', 1)).toEqual([2, 4, 8].map((size) => ({ 'tensor-model-parallel-size': size })));
  expect(listSavings('', 2)).toContainEqual({ 'use-distributed-optimizer': true });
  expect(listSavings('--data-parallel-sharding-strategy optim', 2)).not.toContainEqual({
    'use-distributed-optimizer': true,
  });
  expect(listSavings('--tensor-model-parallel-size 2', 2)).toContainEqual({ 'sequence-parallel': true });
  const inFour = '--use-distributed-optimizer --num-distributed-optimizer-instances 4';
  expect(listSavings(inFour, 4).filter((values) => 'num-distributed-optimizer-instances' in values)).toEqual(
    [2, 1].map((number) => ({ 'num-distributed-optimizer-instances': number })),
  );
});

it('leaves a layout whole that was divided', () => {
  const line =
    '--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --num-distributed-optimizer-instances 2';
  const whole = undivided(configureParallel(line));
  expect(whole).toEqual(configureParallel(''));
});
