import { ConfigurationError } from '@mtl/errors';
import { PythonFloat, type PythonJsonValue } from '../python/json.js';
import { normalizeWeights, roundHalfToEven } from '../python/numbers.js';

/** The three parts of a dataset, in Megatron's order. */
export const splitNames = ['train', 'valid', 'test'] as const;
export type SplitName = (typeof splitNames)[number];

/** The fractions [from, to) of one part, undefined when it is empty. */
export type SplitRange = readonly [from: number, to: number] | undefined;
export type SplitMatrix = readonly [train: SplitRange, valid: SplitRange, test: SplitRange];

/** Parses `--split` ("969,30,1"): one to three weights, normalised, laid end to end. */
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

/** The sequences [first, end) of one part of a dataset of `count` sequences; none where the part is empty. */
export function splitSequences(options: {
  readonly split: SplitName;
  /** Default "1": everything is for training. */
  readonly splitWeights?: string | undefined;
  readonly count: number;
}): { first: number; end: number } {
  const { split, splitWeights = '1', count } = options;
  const range = parseSplit(splitWeights)[splitNames.indexOf(split)];
  if (range === undefined) return { first: 0, end: 0 };
  return { first: roundHalfToEven(range[0] * count), end: roundHalfToEven(range[1] * count) };
}

/** The split as written in the identifiers of a dataset. */
export function splitMatrixIdentifier(split: string): PythonJsonValue {
  return parseSplit(split).map((range) => {
    // The first bookend is Python's integer 0, all others are floats.
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
