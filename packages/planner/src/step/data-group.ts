import type { RankGroup } from '../operations/operation.js';
import type { StepOptions } from './step-options.js';

/**
 * The data-parallel group of a rank. Single tensors are small messages, for which NCCL uses few channels: one
 * adapter of a node. Buckets use those of all ranks of the group.
 */
export function dataGroup({ layout, profile }: Pick<StepOptions, 'layout' | 'profile'>): RankGroup {
  const { hardware, software } = profile;
  const { tensorParallelSize: t, dataParallelSize: d } = layout;
  const perNode = Math.min(d, Math.max(1, Math.floor(hardware.gpusPerNode.value / t)));
  return { axis: 'data', size: d, perNode, adapters: software.reducesInBuckets ? perNode : 1 };
}
