import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import {
  axisFacts,
  isDenseAxis,
  type MeshCoordinates,
  type MeshView,
  meshViews,
  reductionAxes,
} from '@mtl/layout';
import {
  instanceRoles,
  type ListedStore,
  type ShardingStrategy,
  shardingStrategies,
  storeOfStrategy,
  stores,
  type TrainingState,
} from '@mtl/optimizer';
import { choice, count, toggle } from '../flags/flag-kinds.js';
import type { FlagValues } from '../flags/flag-values.js';
import {
  type AxisSize,
  axesOfStage,
  type FlagsOf,
  formatAxes,
  greatestCommonDivisor,
  listDivisors,
  numAlong,
  type SearchedSetting,
  type StrategyCall,
  strategy,
  switchSetting,
} from './strategy.js';

const wordsOfStates: Readonly<Record<TrainingState, string>> = {
  parameters: 'parameters',
  gradients: 'gradients',
  optimizer: 'optimizer state',
};

/** Returns help text that lists what each store shards, such as `no_shard nothing, optim optimizer state`. */
const helpOfStores = (): string =>
  Object.values<ListedStore>(stores)
    .map(({ shardingStrategy, divides }) => {
      const states = divides.map((state) => wordsOfStates[state]);
      return `${shardingStrategy} ${states.join(' and ') || 'nothing'}`;
    })
    .join(', ');

/** The name of the store that shards parameters, gradients and optimizer states. */
const fullySharded = stores.fullySharded.shardingStrategy;

const flags = {
  'use-distributed-optimizer': toggle('Splits optimizer state over the data-parallel ranks.'),
  'data-parallel-sharding-strategy': choice(
    shardingStrategies as readonly [ShardingStrategy, ...ShardingStrategy[]],
    `What the data-parallel ranks divide: ${helpOfStores()}.`,
    {
      defaultText: `no_shard, optim with --use-distributed-optimizer, or ${fullySharded} with --use-megatron-fsdp`,
    },
  ),
  'use-megatron-fsdp': toggle(
    `Fully sharded parameters: means --data-parallel-sharding-strategy ${fullySharded} unless that flag is given.`,
  ),
  'num-distributed-optimizer-instances': count(
    'Blocks of data-parallel ranks (hybrid sharding): the ranks of a block divide states, and all blocks have the same states; above 1 it needs a store that divides.',
    { defaultText: '1' },
  ),
  'overlap-grad-reduce': toggle('Reduces gradients over data-parallel ranks while the backward pass runs.'),
  'overlap-param-gather': toggle(
    'Gathers updated parameters while the forward pass runs; needs --use-distributed-optimizer.',
  ),
};

/** The settings of data parallelism. The sharding strategy determines the store of parameters. */
export interface DataParallelConfiguration
  extends FlagValues<typeof flags, 'data-parallel-sharding-strategy'> {
  /** Number of data-parallel ranks: worldSize / (tensor x context x pipeline). */
  readonly dataParallelSize: number;
}

/** Returns true if a store shards the optimizer state, possibly with other states. */
const dividesState = ({ divides }: ListedStore): boolean => divides.includes('optimizer');

/**
 * Returns the store that --use-distributed-optimizer selects: among the stores with sharded optimizer state,
 * the store that shards the least. If the switch is off, returns the store that shards the least among the
 * stores without sharded optimizer state.
 */
const storeOfSwitch = (isDistributed: boolean): ListedStore =>
  Object.values(stores).find((store) => dividesState(store) === isDistributed)!;

/**
 * Returns the stores that a search tries, in the order in which it prefers equally fast layouts: first the
 * stores that reduce gradients once per step, and among these the store that shards the most.
 */
function searchedStrategies(): readonly ShardingStrategy[] {
  const names = shardingStrategies as readonly ShardingStrategy[];
  const isReducedOnce = (name: ShardingStrategy): boolean =>
    !storeOfStrategy(name).divides.includes('gradients');
  return [...names.filter(isReducedOnce).toReversed(), ...names.filter((name) => !isReducedOnce(name))];
}

/** Returns the flags that select a store. In Megatron-LM they have the same meaning. */
function flagsOfStore({ shardingStrategy }: ListedStore): Readonly<Record<string, unknown>> {
  if (shardingStrategy === storeOfSwitch(false).shardingStrategy) return {};
  if (shardingStrategy === storeOfSwitch(true).shardingStrategy) return { 'use-distributed-optimizer': true };
  return { 'use-megatron-fsdp': true, 'data-parallel-sharding-strategy': shardingStrategy };
}

/**
 * Returns the JSON entries that record a store: the switch, and the store's name if the switch cannot select
 * it.
 */
function recordedStore(store: ListedStore): Readonly<Record<string, unknown>> {
  const distributedOptimizer = dividesState(store);
  const isOfSwitch = storeOfSwitch(distributedOptimizer) === store;
  return {
    distributedOptimizer,
    ...(isOfSwitch ? {} : { dataParallelShardingStrategy: store.shardingStrategy }),
  };
}

/** Returns the description of a store in messages; undefined for the default store. */
function wordsOfStore({ shardingStrategy }: ListedStore): string | undefined {
  if (shardingStrategy === storeOfSwitch(false).shardingStrategy) return undefined;
  return shardingStrategy === storeOfSwitch(true).shardingStrategy
    ? 'distributed optimizer'
    : shardingStrategy;
}

/** Returns true if gradients are summed over several ranks. */
const hasReplicas = (sizes: MeshCoordinates): boolean => reductionAxes.dense.some((axis) => sizes[axis] > 1);

/** Makes the setting of a flag that overlaps the communication of some stores with passes. */
const overlapSetting = (
  flag: keyof typeof flags,
  { words, canOverlap }: { readonly words: string; readonly canOverlap: (store: ListedStore) => boolean },
): SearchedSetting =>
  switchSetting({
    flag,
    words,
    changesPasses: false,
    choices: (sizes, { dataParallelShardingStrategy: name }) =>
      hasReplicas(sizes) && canOverlap(storeOfStrategy(name as ShardingStrategy)) ? [true, false] : [false],
  });

/**
 * Data parallelism: each replica of a model computes a part of every batch. With a distributed optimizer, the
 * optimizer state is also sharded over the replicas (ZeRO-1).
 */
export const dataParallelism = strategy<typeof flags, DataParallelConfiguration>({
  flags,
  axes: [
    { name: 'dp', field: 'dataParallelSize', search: ({ rest }) => ({ sizes: [rest], fits: () => true }) },
  ],
  countsAs: 'dp',
  // a trained model has no data-parallel replicas
  sharing: { help: {}, configure: () => ({ dataParallelSize: 1 }) },
  configure: ({ flags: given, worldSize, axes, notices }) => {
    const dataParallelSize = copiesIn(worldSize, axes);
    const store = storeBy(given);
    const useDistributedOptimizer = dividesState(store);
    const [overlapGradReduce, overlapParamGather] = [
      given.required('overlap-grad-reduce'),
      given.required('overlap-param-gather'),
    ];
    if (dataParallelSize * numAlong(axes.filter(({ axis }) => axisFacts[axis].isSummed)) === 1) {
      const asked = {
        'use-distributed-optimizer': given.required('use-distributed-optimizer'),
        'data-parallel-sharding-strategy':
          given.get('data-parallel-sharding-strategy') !== undefined && store.divides.length > 0,
        'use-megatron-fsdp': given.required('use-megatron-fsdp'),
        'overlap-grad-reduce': overlapGradReduce,
        'overlap-param-gather': overlapParamGather,
      };
      for (const [name, isAsked] of Object.entries(asked)) {
        if (isAsked) notices.push(`--${name} has no effect with one data-parallel rank`);
      }
    }
    if (overlapParamGather && !useDistributedOptimizer) {
      given.needs(
        'overlap-param-gather',
        '--use-distributed-optimizer',
        'has parameters to gather only when they are split',
      );
    }
    const numInstances = given.get('num-distributed-optimizer-instances') ?? 1;
    if (numInstances > 1 && store.divides.length === 0) {
      given.needs(
        'num-distributed-optimizer-instances',
        '--use-distributed-optimizer',
        'has instances only of a store that divides states over ranks',
      );
    }
    return {
      dataParallelSize,
      ...(numInstances === 1 ? {} : { numDistributedOptimizerInstances: numInstances }),
      dataParallelShardingStrategy: store.shardingStrategy as ShardingStrategy,
      useDistributedOptimizer,
      useMegatronFsdp: given.required('use-megatron-fsdp'),
      overlapGradReduce,
      overlapParamGather,
    };
  },
  complete: ({ numDistributedOptimizerInstances: numInstances = 1 }, call) => {
    checkInstances(call, numInstances);
    return {};
  },
  groups: ({ mesh, fields: { numDistributedOptimizerInstances: numInstances = 1 } }) => {
    const { dense, expert } = reductionAxes;
    if (numInstances === 1) return { dp: ['dp'], dense, expert };
    const ofViews = (Object.keys(meshViews) as MeshView[]).flatMap((view) => {
      const axes = reductionAxes[view];
      const blockSize = axes.reduce((product, axis) => product * mesh.sizes[axis], 1) / numInstances;
      return [
        [view, { axes, blockSize }],
        [instanceRoles[view], { axes, blockSize, across: true }],
      ] as const;
    });
    return { dp: ['dp'], ...Object.fromEntries(ofViews) };
  },
  settings: [
    {
      key: 'dataParallelShardingStrategy',
      changesPasses: false,
      choices: (sizes) => (hasReplicas(sizes) ? searchedStrategies() : shardingStrategies.slice(0, 1)),
      givenBy: ['data-parallel-sharding-strategy', 'use-megatron-fsdp', 'use-distributed-optimizer'],
      given: (flag, value) => {
        if (flag === 'use-megatron-fsdp') return value === true ? fullySharded : undefined;
        return flag === 'use-distributed-optimizer' ? storeOfSwitch(value === true).shardingStrategy : value;
      },
      flags: (value) => flagsOfStore(storeOfStrategy(value as ShardingStrategy)),
      recorded: (value) => recordedStore(storeOfStrategy(value as ShardingStrategy)),
      words: (value) => wordsOfStore(storeOfStrategy(value as ShardingStrategy)),
    },
    overlapSetting('overlap-grad-reduce', {
      words: 'overlapped reduction',
      // A store that shards gradients reduces them during the backward pass even without the flag.
      canOverlap: ({ divides }) => !divides.includes('gradients'),
    }),
    overlapSetting('overlap-param-gather', {
      words: 'overlapped gather',
      canOverlap: (store) => dividesState(store) && !store.divides.includes('parameters'),
    }),
  ],
  savings: [
    {
      flag: 'use-distributed-optimizer',
      costs: 'nothing',
      values: ({ fields, sizes }) => (!fields.useDistributedOptimizer && sizes.dp > 1 ? [true] : []),
    },
    {
      flag: 'num-distributed-optimizer-instances',
      costs: 'little',
      values: ({ fields: { numDistributedOptimizerInstances: numInstances = 1 } }) =>
        listDivisors(numInstances).slice(0, -1).toReversed(),
    },
  ],
  undivided: {
    dataParallelShardingStrategy: storeOfSwitch(false).shardingStrategy as ShardingStrategy,
    useDistributedOptimizer: false,
    useMegatronFsdp: false,
    numDistributedOptimizerInstances: undefined,
    overlapGradReduce: false,
    overlapParamGather: false,
  },
  ofOptimizer: ({
    dataParallelShardingStrategy,
    numDistributedOptimizerInstances: numInstances = 1,
    overlapGradReduce,
    overlapParamGather,
  }) => ({
    store: storeOfStrategy(dataParallelShardingStrategy),
    numInstances,
    flagOfInstances: 'num-distributed-optimizer-instances',
    overlapGradientReduction: overlapGradReduce,
    flagOfReduction: 'overlap-grad-reduce',
    overlapParameterGather: overlapParamGather,
  }),
  aliases: {
    'use-custom-fsdp': { flag: 'use-megatron-fsdp' },
    'use-torch-fsdp2': { flag: 'use-megatron-fsdp' },
  },
  displaces: {
    'use-distributed-optimizer': ['data-parallel-sharding-strategy', 'use-megatron-fsdp'],
    'data-parallel-sharding-strategy': ['use-distributed-optimizer', 'use-megatron-fsdp'],
    'use-megatron-fsdp': ['use-distributed-optimizer', 'data-parallel-sharding-strategy'],
  },
  impliedBy: [
    {
      flag: 'optimizer',
      value: 'dist_muon',
      instead: 'muon',
      turnsOn: 'use-distributed-optimizer',
      without: 'use --optimizer muon for Muon without the distributed optimizer',
    },
  ],
});

/**
 * Returns the store that the flags request.
 *
 * @throws ConfigurationError `MTL_FLAG_CONFLICT` if the flags contradict each other
 */
function storeBy(given: FlagsOf<typeof flags>): ListedStore {
  const isDistributed = given.required('use-distributed-optimizer');
  const byName = given.get('data-parallel-sharding-strategy');
  const name = byName ?? (given.required('use-megatron-fsdp') ? fullySharded : undefined);
  if (name === undefined) return storeOfSwitch(isDistributed);
  const store = storeOfStrategy(name);
  const isSaid = isDistributed || !given.isDefault('use-distributed-optimizer');
  if (isSaid && isDistributed !== dividesState(store)) {
    const flag = byName === undefined ? 'use-megatron-fsdp' : 'data-parallel-sharding-strategy';
    given.conflict({
      flags: ['use-distributed-optimizer', flag],
      why: `${name} ${isDistributed ? 'divides no' : 'divides'} optimizer state over ranks`,
      remedy: `leave one of the flags out; --data-parallel-sharding-strategy ${storeOfSwitch(isDistributed).shardingStrategy} means --${isDistributed ? '' : 'no-'}use-distributed-optimizer`,
    });
  }
  return store;
}

/**
 * Checks that the ranks that sum gradients can be divided into instances. The same must hold for the ranks
 * that have copies of the same experts.
 *
 * @throws ConfigurationError `MTL_OPTIMIZER_INSTANCES`, whose message contains the possible values
 */
function checkInstances({ flags: given, axes }: StrategyCall<typeof flags>, numInstances: number): void {
  const stage = axesOfStage(axes);
  const summing = stage.filter(({ axis }) => axisFacts[axis].isSummed);
  const numRanks = numAlong(summing);
  const sharing = axes.filter(({ axis }) => !isDenseAxis(axis));
  const numCopies = sharing.length === 0 ? numRanks : numAlong(stage) / numAlong(sharing);
  if (numRanks % numInstances === 0 && numCopies % numInstances === 0) return;
  const nearest = nearestDivisors(greatestCommonDivisor(numRanks, numCopies), numInstances);
  const what =
    numRanks % numInstances === 0
      ? `${numCopies} ranks with copies of the same experts`
      : `${numRanks} ranks that sum gradients (${formatAxes(summing)})`;
  given.refuse('num-distributed-optimizer-instances', `does not divide the ${what}`, {
    code: 'MTL_OPTIMIZER_INSTANCES',
    expected: nearest.join(' or '),
    remedy: `pass --num-distributed-optimizer-instances ${nearest.at(0)}`,
    details: { numInstances, numRanks, numCopies, nearest },
  });
}

/**
 * Returns the number of replicas of a model, given the number of processes and the axes along which a replica
 * is split.
 */
function copiesIn(worldSize: number, axes: readonly AxisSize[]): number {
  const modelSize = numAlong(axes);
  if (worldSize % modelSize === 0) return worldSize / modelSize;
  const words = axes.map(({ word }) => word).join(' x ');
  const sizes = axes.map(({ size }) => size).join(' x ');
  throw new ConfigurationError(
    'MTL_WORLD_SIZE',
    `${worldSize === 1 ? '1 process is' : `${worldSize} processes are`} running, but ${words} parallelism is ` +
      `${sizes} = ${modelSize}`,
    {
      expected: `a multiple of ${modelSize} processes`,
      remedy: `start this number with npx mtl run --nproc-per-node ${modelSize}, or choose smaller sizes`,
      details: { worldSize, ...Object.fromEntries(axes.map(({ word, size }) => [word, size])) },
    },
  );
}
