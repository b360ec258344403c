import { PythonFloat } from '@mtl/chat-templates';
import { ConfigurationError, changedError, DataError } from '@mtl/errors';
import type { PythonJsonValue } from '../python/json.js';
import { normalizeWeights, roundHalfToEven } from '../python/numbers.js';

/** The index settings that all of a run's datasets share. */
export interface SampleIndexSettings {
  readonly sequenceLength: number;
  readonly seed: number;
  /** `--split`: the weights of train, valid and test. Default: "1", which uses all data for training. */
  readonly splitWeights?: string | undefined;
  /**
   * The tokenizer identifiers, which are included in the md5 in the cache files' names. With Megatron's
   * identifiers, Megatron and this project can use each other's caches.
   */
  readonly tokenizerIdentifiers?: PythonJsonValue;
  /**
   * The directory for cached indices. Default: `{prefix}/cache/{Class}_indices`. `false` disables the cache.
   */
  readonly cacheDirectory?: string | false | undefined;
  readonly onCacheEvent?: ((event: IndexCacheEvent) => void) | undefined;
}

/** The dataset, the split that provides the samples, and how many samples will be requested. */
export interface SampleIndexPart {
  /** The prefix of an indexed dataset. */
  readonly prefix: string;
  readonly split: SplitName;
  /**
   * How many samples will be requested, if necessary from several epochs. Undefined means exactly one epoch.
   */
  readonly numSamples?: number | undefined;
}

/**
 * An event that reports whether a cached index was loaded, built or stored, so that the caller can tell the
 * user.
 */
export interface IndexCacheEvent {
  /**
   * The event:
   * - `loaded`: the index was read from the cache
   * - `built`: the index was built, because the cache did not contain it
   * - `rebuilt`: the index was built, because the cached index was invalid
   * - `not-written`: the index was built, but could not be stored
   */
  readonly kind: 'loaded' | 'built' | 'rebuilt' | 'not-written';
  readonly directory: string;
  /** The beginning of the cache files' names: `{md5}-{class}` or `{md5}-{class}-{split}`. */
  readonly name: string;
  /** Why the index was rebuilt or could not be written. */
  readonly reason?: string;
  readonly milliseconds: number;
}

/** The splits of a dataset, in Megatron's order. */
export const splitNames = ['train', 'valid', 'test'] as const;
export type SplitName = (typeof splitNames)[number];

/** A split's range [from, to), as fractions of the dataset; undefined if the split is empty. */
type SplitRange = readonly [from: number, to: number] | undefined;
type SplitMatrix = readonly [train: SplitRange, valid: SplitRange, test: SplitRange];

/**
 * Parses `--split`, such as "969,30,1". It contains one to three weights, which are normalized and become
 * consecutive ranges.
 */
export function parseSplit(split: string): SplitMatrix {
  const numbers = (split.match(/[.0-9]+/g) ?? []).map(Number);
  if (
    numbers.length === 0 ||
    numbers.length > 3 ||
    numbers.some((n) => !Number.isFinite(n)) ||
    split.includes('-')
  ) {
    throw invalidSplit(split);
  }
  while (numbers.length < 3) numbers.push(0);
  if (!numbers.some((weight) => weight > 0)) throw invalidSplit(split);
  let from = 0;
  const ranges = normalizeWeights(numbers).map((width): SplitRange => {
    const to = from + width;
    const range: SplitRange = to > from ? [from, to] : undefined;
    from = to;
    return range;
  });
  return ranges as unknown as SplitMatrix;
}

/**
 * Returns the range [first, end) of sequences that belong to a split of a dataset with `count` sequences. The
 * range is empty if the split is empty.
 */
export function splitSequences(options: {
  readonly split: SplitName;
  /** `--split` (default "1": everything is for training). */
  readonly splitWeights?: string | undefined;
  readonly count: number;
}): { first: number; end: number } {
  const { split, splitWeights = '1', count } = options;
  const range = parseSplit(splitWeights)[splitNames.indexOf(split)];
  if (range === undefined) return { first: 0, end: 0 };
  return { first: roundHalfToEven(range[0] * count), end: roundHalfToEven(range[1] * count) };
}

/**
 * Returns the split matrix of the weights `split`, in the form in which a dataset's identifiers contain it.
 */
function splitMatrixIdentifier(split: string): PythonJsonValue {
  return parseSplit(split).map((range) => {
    // as in Megatron, a range that starts at 0 has the Python integer 0 as its start, and all other limits
    // are floats
    return range === undefined
      ? null
      : [range[0] === 0 ? 0 : new PythonFloat(range[0]), new PythonFloat(range[1])];
  });
}

function invalidSplit(split: string): ConfigurationError {
  return new ConfigurationError('MTL_DATA_SPLIT', `a split of "${split}"`, {
    expected: 'one to three non-negative weights of train, valid and test, not all zero',
    remedy: 'for example 969,30,1 (--split)',
  });
}

/**
 * Returns the identifiers that all dataset classes share. As in Megatron, they precede a class's own
 * identifiers, and the md5 of all identifiers is part of the cache files' names.
 */
export function datasetIdentifiers(
  className: string,
  options: SampleIndexSettings & SampleIndexPart,
): Record<string, PythonJsonValue> {
  const splitWeights = options.splitWeights ?? '1';
  return {
    class: className,
    dataset_path: options.prefix,
    num_samples: options.numSamples ?? null,
    index_split: options.split,
    random_seed: options.seed,
    sequence_length: options.sequenceLength,
    split: splitWeights,
    split_matrix: splitMatrixIdentifier(splitWeights),
    tokenizer: options.tokenizerIdentifiers ?? null,
  };
}

/** Calls `run`, and adds the names of the dataset and the split to the data errors that it throws. */
export function inPart<T>(part: { readonly prefix: string; readonly split: SplitName }, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof DataError)) throw error;
    throw changedError(error, { message: `${part.prefix} (${part.split}): ${error.message}` });
  }
}
