import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import type { Slice } from '@mtl/kernels';
import { sliceOfRank, type TensorParallel } from '@mtl/tensor-parallel';

/** The heads of an attention and their groups, of which each rank has complete ones. */
export class HeadGroups {
  /** G, of all ranks. */
  readonly numGroups: number;
  /** A / G */
  readonly headsPerGroup: number;
  /** What is sharded, in the plural, for errors. */
  readonly what: string;
  /** The groups of this rank. */
  readonly groups: Slice;
  /** The query heads of this rank. */
  readonly heads: Slice;

  /**
   * @throws ConfigurationError MTL_ATTENTION_HEADS when the groups do not divide the heads,
   *   MTL_TENSOR_PARALLEL_SIZE when they cannot be sharded evenly
   */
  constructor(
    {
      numHeads,
      numGroups = numHeads,
    }: { readonly numHeads: number; readonly numGroups?: number | undefined },
    tensorParallel: TensorParallel | undefined,
  ) {
    if (numHeads % numGroups !== 0) {
      throw new ConfigurationError(
        'MTL_ATTENTION_HEADS',
        `${numGroups} query groups do not divide ${numHeads} attention heads`,
        { expected: nearestDivisors(numHeads, numGroups).join(' or ') },
      );
    }
    this.numGroups = numGroups;
    this.headsPerGroup = numHeads / numGroups;
    this.what = numGroups === numHeads ? 'attention heads' : 'query groups';
    this.groups = sliceOfRank(tensorParallel, { size: numGroups, what: this.what });
    const { start, end } = this.groups;
    this.heads = { start: start * this.headsPerGroup, end: end * this.headsPerGroup };
  }
}
