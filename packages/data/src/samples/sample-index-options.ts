import type { PythonJsonValue } from '../python/json.js';
import type { IndexCacheEvent } from './index-cache-event.js';
import type { SplitName } from './split.js';

/** What the indices of all datasets of a run have in common, whatever their samples are. */
export interface SampleIndexSettings {
  readonly sequenceLength: number;
  readonly seed: number;
  /** `--split`: weights of train, valid and test (default "1": everything is for training). */
  readonly splitWeights?: string | undefined;
  /** Part of the cache files' md5; Megatron's own value makes its caches and ours interchangeable. */
  readonly tokenizerIdentifiers?: PythonJsonValue;
  /**
   * Directory of cached indices (default `{prefix}/cache/{Class}_indices`); `false` keeps them in memory
   * only.
   */
  readonly cacheDirectory?: string | false | undefined;
  readonly onCacheEvent?: ((event: IndexCacheEvent) => void) | undefined;
}

/** Which samples of which dataset. */
export interface SampleIndexPart {
  /** Prefix of an indexed dataset. */
  readonly prefix: string;
  readonly split: SplitName;
  /** Samples that will be asked for (epochs are repeated to give them); undefined for exactly one epoch. */
  readonly numSamples?: number | undefined;
}
