import type { World } from '@mtl/comm';
import { Ranks } from '../../src/steps/ranks.js';

/** The results of collectives of all ranks over the numbers of a step. */
export interface NumbersOfRanks {
  readonly sums: readonly number[];
  readonly largest: readonly number[];
  readonly all: readonly number[];
}

export default ({ rank, group }: World): NumbersOfRanks => {
  const ranks = new Ranks({ groups: { world: group } });
  return {
    sums: ranks.sum([rank, 0.5]),
    largest: ranks.maximum([rank, 5 - rank]),
    all: ranks.ofEveryRank(10 * rank),
  };
};
