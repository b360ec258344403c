import { UsageError } from '@mtl/errors';
import { checkRanks } from '../native/native-job.js';
import type { ProcessGroup } from '../process-group.js';
import { SingleProcessGroup } from '../single-process-group.js';
import type { GroupOptions, World } from '../world.js';
import { MetaGroup, type MetaGroupOptions } from './meta-group.js';

export interface MetaWorldOptions extends Pick<MetaGroupOptions, 'onOperation' | 'onWait'> {
  readonly rank: number;
  readonly size: number;
}

/**
 * One rank of a world of any size, in this process and without the others: engine `meta`, see `MetaGroup`.
 * For dry runs, whose tensors are on device `meta`.
 */
export class MetaWorld implements World {
  readonly rank: number;
  readonly size: number;
  readonly group: ProcessGroup;
  readonly #listeners: Pick<MetaGroupOptions, 'onOperation' | 'onWait'>;

  /** @throws UsageError `MTL_GROUP` for a rank that a world of the size does not have */
  constructor({ rank, size, ...listeners }: MetaWorldOptions) {
    if (!(Number.isSafeInteger(size) && Number.isSafeInteger(rank) && rank >= 0 && rank < size)) {
      throw new UsageError('MTL_GROUP', `rank ${rank} of a world of ${size} processes`, {
        expected: 'a rank from 0 to the number of processes minus 1',
      });
    }
    this.rank = rank;
    this.size = size;
    this.#listeners = listeners;
    this.group = this.createGroup({ name: 'world', ranks: Array.from({ length: size }, (_, each) => each) });
  }

  createGroup({ name, ranks }: GroupOptions): ProcessGroup {
    checkRanks({ name, ranks }, this.rank);
    if (ranks.length === 1) return new SingleProcessGroup(name, this.rank);
    return new MetaGroup({ name, ranks, worldRank: this.rank, ...this.#listeners });
  }

  /** Nothing: there are no others to tell. */
  abort(): void {}

  close(): void {}

  [Symbol.dispose](): void {
    this.close();
  }
}
