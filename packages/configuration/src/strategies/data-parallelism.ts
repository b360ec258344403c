import { ConfigurationError } from '@mtl/errors';
import { axisFacts, reductionAxes } from '@mtl/layout';
import { toggle } from '../flags/flag-kinds.js';
import { type AxisSize, numAlong, strategy } from './strategy.js';

export interface DataParallelConfiguration {
  /** worldSize / (tensor x context x pipeline). */
  readonly dataParallelSize: number;
  readonly useDistributedOptimizer: boolean;
  readonly overlapGradReduce: boolean;
  readonly overlapParamGather: boolean;
}

const flags = {
  'use-distributed-optimizer': toggle('Splits optimizer state over the data-parallel ranks.'),
  'overlap-grad-reduce': toggle('Reduces gradients over data-parallel ranks while the backward pass runs.'),
  'overlap-param-gather': toggle(
    'Gathers updated parameters while the forward pass runs; needs --use-distributed-optimizer.',
  ),
};

/** Copies of a model that share a batch, and with a distributed optimizer its state (ZeRO-1). */
export const dataParallelism = strategy<typeof flags, DataParallelConfiguration>({
  flags,
  axes: [
    { name: 'dp', field: 'dataParallelSize', search: ({ rest }) => ({ sizes: [rest], fits: () => true }) },
  ],
  countsAs: 'dp',
  // a trained model is there once
  sharing: { help: {}, configure: () => ({ dataParallelSize: 1 }) },
  configure: ({ flags: given, worldSize, axes, notices }) => {
    const dataParallelSize = copiesIn(worldSize, axes);
    for (const name of Object.keys(flags) as (keyof typeof flags)[]) {
      if (
        given.required(name) &&
        dataParallelSize * numAlong(axes.filter(({ axis }) => axisFacts[axis].isSummed)) === 1
      )
        notices.push(`--${name} has no effect with one data-parallel rank`);
    }
    if (given.required('overlap-param-gather') && !given.required('use-distributed-optimizer')) {
      given.needs(
        'overlap-param-gather',
        '--use-distributed-optimizer',
        'has parameters to gather only when they are split',
      );
    }
    return {
      dataParallelSize,
      useDistributedOptimizer: given.required('use-distributed-optimizer'),
      overlapGradReduce: given.required('overlap-grad-reduce'),
      overlapParamGather: given.required('overlap-param-gather'),
    };
  },
  groups: () => ({ dp: ['dp'], dense: reductionAxes.dense, expert: reductionAxes.expert }),
});

/** Returns how many models the processes are, each split along these axes. */
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
      remedy: `start as many with npx mtl run --nproc-per-node ${modelSize}, or choose smaller sizes`,
      details: { worldSize, ...Object.fromEntries(axes.map(({ word, size }) => [word, size])) },
    },
  );
}
