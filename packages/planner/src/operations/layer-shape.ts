import type { ListedSoftware } from '../profiles/software-profile.js';
import type { Block } from './block-sizes.js';
import type { RankGroup } from './operation.js';

/** What recomputation repeats: nothing, attention between QKV and output projection, or whole layers. */
export type Recomputation = 'none' | 'selective' | 'full';

/** Sizes of a transformer layer on one tensor-parallel rank. */
export interface LayerShape extends Block {
  readonly sequenceLength: number;
  readonly microBatchSize: number;
  readonly hiddenSize: number;
  readonly numHeads: number;
  readonly tensorParallelSize: number;
  readonly sequenceParallel: boolean;
  readonly recomputation: Recomputation;
  readonly group: RankGroup;
  readonly software: ListedSoftware;
}
