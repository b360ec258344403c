import { nearestDivisors, nearestMultiples } from '@mtl/errors';
import { count, toggle } from '../flags/flag-kinds.js';
import type { FlagValues } from '../flags/flag-values.js';
import {
  greatestCommonDivisor,
  powersOfTwo,
  type StrategyCall,
  strategy,
  switchSetting,
} from './strategy.js';

/** The flags that request tensor parallelism. */
export const tensorParallelFlags = {
  'tensor-model-parallel-size': count('Processes that share every layer.', { default: 1 }),
  'sequence-parallel': toggle(
    'Also splits layer norms and dropout, along the sequence, over the tensor-parallel ranks.',
  ),
};

export interface TensorParallelConfiguration extends FlagValues<typeof tensorParallelFlags> {}

/**
 * Tensor parallelism: every layer is sharded over several processes (Shoeybi et al. 2019). With sequence
 * parallelism, the sequence is also sharded between the split layers (Korthikanti et al. 2022).
 */
export const tensorParallelism = strategy<typeof tensorParallelFlags, TensorParallelConfiguration>({
  flags: tensorParallelFlags,
  aliases: { 'model-parallel-size': { flag: 'tensor-model-parallel-size' } },
  axes: [
    {
      name: 'tp',
      flag: 'tensor-model-parallel-size',
      field: 'tensorModelParallelSize',
      differsAtEnds: true,
      // the size must divide the number of heads, and the number of query groups
      search: ({ values, gpusPerNode, rest }) => {
        const heads = values['num-attention-heads'] as number;
        const groups = (values['num-query-groups'] as number | undefined) ?? heads;
        return {
          sizes: powersOfTwo(2 * gpusPerNode),
          fits: (size) => rest % size === 0 && heads % size === 0 && groups % size === 0,
        };
      },
    },
  ],
  countsAs: 'tp',
  communicatesInPasses: true,
  sharing: {
    help: { 'tensor-model-parallel-size': 'Processes that share every layer.' },
    configure: ({ 'tensor-model-parallel-size': size = 1 }) => ({ tensorModelParallelSize: size }),
  },
  ofModel: ({ groups: { tp }, fields: { sequenceParallel = false } }) => ({
    tensorParallel: tp && { group: tp, sequenceParallel },
  }),
  configure: (call) => {
    const size = call.flags.required('tensor-model-parallel-size');
    const sequenceParallel = call.flags.required('sequence-parallel');
    checkEven(call, size);
    if (sequenceParallel && size === 1) {
      call.notices.push('--sequence-parallel has no effect with --tensor-model-parallel-size 1');
    }
    return { tensorModelParallelSize: size, sequenceParallel: sequenceParallel && size > 1 };
  },
  groups: () => ({ tp: ['tp'] }),
  settings: [
    switchSetting({
      flag: 'sequence-parallel',
      changesPasses: true,
      choices: ({ tp }) => (tp === 1 ? [false] : [true, false]),
      recorded: (sequenceParallel) => ({ sequenceParallel }),
      words: 'sequence parallelism',
    }),
  ],
  savings: [
    {
      flag: 'sequence-parallel',
      costs: 'some',
      values: ({ fields, sizes }) => (sizes.tp > 1 && !fields.sequenceParallel ? [true] : []),
    },
    {
      flag: 'tensor-model-parallel-size',
      costs: 'much',
      values: ({ sizes: { tp } }) => [2, 4, 8].filter((size) => size > tp),
    },
  ],
});

/** Checks that the size divides the dimensions of every tensor that is split. */
function checkEven({ flags: given, model }: StrategyCall<typeof tensorParallelFlags>, size: number): void {
  const split: ReadonlyArray<readonly [string, number]> = [
    ['num-attention-heads', model.numAttentionHeads],
    ...(model.groupQueryAttention ? ([['num-query-groups', model.numQueryGroups ?? 1]] as const) : []),
    ['ffn-hidden-size', model.ffnHiddenSize],
    ...(model.moeSharedExpertIntermediateSize === undefined
      ? []
      : ([['moe-shared-expert-intermediate-size', model.moeSharedExpertIntermediateSize]] as const)),
    ['make-vocab-size-divisible-by', model.makeVocabSizeDivisibleBy],
    ...(given.required('sequence-parallel') && model.sequenceLength !== undefined
      ? ([['seq-length', model.sequenceLength]] as const)
      : []),
  ];
  for (const [name, total] of split) {
    if (total % size === 0) continue;
    // the remedy is a divisor of all dimensions, because a divisor of this dimension alone could cause the
    // next error
    const common = split.map(([, value]) => value).reduce(greatestCommonDivisor);
    const nearest = nearestDivisors(common, size);
    const others = split.filter(([other]) => other !== 'make-vocab-size-divisible-by');
    const isPadding = others.every(([, value]) => value % size === 0);
    const paddings = isPadding && !given.isLoaded(name) ? paddingsFor(total, size) : [];
    given.refuse('tensor-model-parallel-size', `does not divide --${name} ${total}`, {
      code: 'MTL_TENSOR_PARALLEL_SIZE',
      expected:
        nearest.join(' or ') +
        (paddings.length === 0 ? '' : `, or --${name} ${paddings.join(', ')} or another multiple of ${size}`),
      remedy:
        `pass --tensor-model-parallel-size ${nearest.at(0)}` +
        (paddings.length === 0 ? '' : `, or --${name} ${paddings.at(-1)}`),
      details: { size, flag: name, total, nearest, paddings },
    });
  }
}

/**
 * Returns counts of vocabulary rows that divide evenly among ranks: the two multiples of `size` that are
 * nearest to `total`, and a common multiple of `size` and `total`.
 */
function paddingsFor(total: number, size: number): readonly number[] {
  const both = (total * size) / greatestCommonDivisor(total, size);
  return [...new Set([...nearestMultiples(size, total), both])];
}
