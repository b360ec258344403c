import { nearestName, UsageError } from '@mtl/errors';
import { describeOperand } from '../checked-operation.js';
import type { Operands } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/**
 * Which keys each query can attend to: all keys that no option hides. S is the number of query positions, K
 * the number of key positions, and B the micro-batch size. Query s is at position `firstQuery` + s of the
 * sequence, and key k at position `firstKey` + k. Keys that are hidden from all queries cost nothing. A call
 * may compute only some of a sequence's queries with some of its keys, as in context parallelism. Default: no
 * key is hidden.
 */
export interface Visibility {
  /** True if a query attends only to keys up to its own position. Default: false. */
  readonly causal?: boolean | undefined;
  /**
   * How many earlier positions a query can attend to, in addition to its own (Megatron-LM's --window-size).
   * Must not be negative, and requires `causal`. Default: all earlier positions.
   */
  readonly windowSize?: number | undefined;
  /** Position of query 0 in the sequence. Default: 0. */
  readonly firstQuery?: number | undefined;
  /** The position of key 0 in the sequence, which may be after the position of query 0. Default: 0. */
  readonly firstKey?: number | undefined;
  /**
   * [B, S] int32: query s of sample b attends only to keys at position keyStart[b, s] of the sequence or
   * later. This is the first position of the query's document.
   */
  readonly keyStart?: Tensor | undefined;
  /** [B, K] uint8: 1 for a real key, 0 for padding. */
  readonly keyMask?: Tensor | undefined;
  /**
   * Replaces the B samples of the same length by samples of different lengths. Operands have T rows instead
   * of [S, B], and a query attends only to keys of its own sample. Must not be combined with `firstQuery`,
   * `firstKey`, `keyStart` or `keyMask`.
   */
  readonly packed?: PackedSamples | undefined;
}

/** Consecutive samples in T rows, without padding. */
export interface PackedSamples {
  /**
   * [N + 1] int32: sample n has the rows from starts[n] to starts[n + 1], exclusive. Rows from starts[N] on
   * do not belong to any sample; their output and gradients are 0.
   */
  readonly starts: Tensor;
  /** The number of rows in the longest sample, or an upper bound. */
  readonly longest: number;
  /**
   * The number of scores, for counting FLOPs. This is the sum over all samples of the squared length or, if
   * `queries` is given, of the number of queries times the number of keys.
   */
  readonly numScores: number;
  /**
   * The queries, if they are only a part of each sample's queries. Default: all queries, in the same rows as
   * the keys.
   */
  readonly queries?: PackedQueries | undefined;
  /**
   * [N] int32: the position of each sample's first key in its sequence. It is needed if a sample is a section
   * of a sequence (such as a document) or lacks some keys. Without `queries`, it is also the position of the
   * first query. Default: 0.
   */
  readonly first?: Tensor | undefined;
}

/**
 * The queries of packed samples, in U separate rows: query, output and logSumExp have U rows instead of T.
 */
export interface PackedQueries {
  /**
   * [N + 1] int32: sample n has the queries from starts[n] to starts[n + 1], exclusive. A sample may have any
   * number of queries.
   */
  readonly starts: Tensor;
  /** The largest number of queries in a sample, or an upper bound. */
  readonly longest: number;
  /** [N] int32: the position of each sample's first query in its sequence. Default: 0. */
  readonly first?: Tensor | undefined;
}

/** Returns true if a property is given, even if TypeScript does not know it. */
const isGiven = (options: object, name: string): boolean =>
  (options as Readonly<Record<string, unknown>>)[name] !== undefined;

const descriptions: Readonly<Record<keyof Visibility, string>> = {
  causal: 'true or false',
  windowSize: 'a number of positions',
  firstQuery: 'a position',
  firstKey: 'a position',
  keyStart: 'a Tensor [B, S]',
  keyMask: 'a Tensor [B, K]',
  packed: '{ starts, longest, numScores }',
};

const listed = Object.entries(descriptions)
  .map(([name, value]) => `${name}: ${value}`)
  .join(', ');

function checkStarts(operation: string, name: string, samples: PackedQueries | undefined): void {
  if (samples === undefined || isGiven(Object(samples), 'starts')) return;
  throw new UsageError('MTL_ARGUMENT', `${operation}: visibility.${name} has no starts`, {
    expected: 'a Tensor of int32 with the first row of each sample, and the end of the last',
    remedy: `leave ${name} out if samples are not packed`,
  });
}

/**
 * Checks that the options which hide keys are inside `visibility`. JavaScript could pass them elsewhere,
 * where they would have no effect.
 *
 * @param operation the operation's name in errors
 * @param options all options of the operation's call
 * @throws UsageError MTL_ARGUMENT for an option of `visibility` outside of this object, and for an unknown
 *   option inside it
 */
export function checkVisibility(operation: string, options: object): void {
  const { visibility } = options as { readonly visibility?: Visibility };
  for (const name in descriptions) {
    if (!isGiven(options, name)) continue;
    throw new UsageError('MTL_ARGUMENT', `${operation}: ${name} is given outside of visibility`, {
      expected: `${name} inside visibility, ${descriptions[name as keyof Visibility]}`,
      remedy: `visibility: { ${name}: ${name === 'causal' ? 'true' : '...'} }`,
    });
  }
  if (visibility === undefined) return;
  if (typeof visibility !== 'object' || visibility === null) {
    throw new UsageError('MTL_ARGUMENT', `${operation}: visibility is ${describeOperand(visibility)}`, {
      expected: 'an object of options',
      remedy: 'visibility: { causal: true }',
    });
  }
  for (const name in visibility) {
    if (Object.hasOwn(descriptions, name) || !isGiven(visibility, name)) continue;
    throw new UsageError('MTL_ARGUMENT', `${operation}: unknown option visibility.${name}`, {
      expected: listed,
      remedy: `visibility: { ${nearestName(name, Object.keys(descriptions)) ?? 'causal'}: ... }`,
    });
  }
  checkStarts(operation, 'packed', visibility.packed);
  checkStarts(operation, 'packed.queries', visibility.packed?.queries);
}

/** Returns the operands and attributes of attention that determine to which keys each query attends. */
export function visibilityOperands(visibility: Visibility): Operands {
  const { causal = false, windowSize, firstQuery = 0, firstKey = 0, keyStart, keyMask, packed } = visibility;
  return {
    keyStart,
    keyMask,
    starts: packed?.starts,
    queryStarts: packed?.queries?.starts,
    firstQueries: packed?.queries === undefined ? packed?.first : packed.queries.first,
    firstKeys: packed?.first,
    causal,
    windowSize: windowSize ?? -1,
    firstQuery,
    firstKey,
    longest: packed?.longest ?? 0,
    longestQueries: packed?.queries?.longest ?? 0,
    numScores: packed?.numScores ?? 0,
  };
}
