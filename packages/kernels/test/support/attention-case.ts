import { type AttentionOptions, type DType, splitProjection, type Tensor } from '../../src/index.js';
import type { TensorSpec, Tensors } from '../op-cases/op-case.js';

/** Positions [first, end) in the sequence of a sample. */
export type Range = readonly [first: number, end: number];

/**
 * A call of attention, from which its operands, its options and the results of the formula
 * (attention-oracle.ts) are made. S query positions and K key positions of B samples, T and U rows of packed
 * samples, A query heads in G groups, D head size of queries and keys, E head size of values.
 */
export interface AttentionCase {
  readonly name: string;
  /** The queries of each sample; the same for all samples unless these are packed. */
  readonly queries: readonly Range[];
  /** The keys of each sample. */
  readonly keys: readonly Range[];
  /** True if samples follow each other without padding. */
  readonly isPacked?: boolean;
  /** Rows of packed queries and keys, at the end, that belong to no sample. Default: none. */
  readonly rest?: readonly [queries: number, keys: number];
  readonly heads: number;
  /** The number of query heads that share a key and a value. Default: 1. */
  readonly headsPerGroup?: number;
  readonly headSize: number;
  /** Default: the head size. */
  readonly valueSize?: number;
  readonly causal?: boolean;
  readonly windowSize?: number;
  /** The lengths of the documents of a sequence, which repeat. Padded samples only, as `isPadding`. */
  readonly documents?: readonly number[];
  /** Tells whether the key at a position of a sample is padding. */
  readonly isPadding?: (position: number, sample: number) => boolean;
  readonly dropout?: number;
  /** The global number of each sample. Default: numbers above 2^33. */
  readonly sampleNumbers?: readonly number[];
  /** The global index of the first head. Default: 3. */
  readonly firstHead?: number;
  readonly scale?: number;
  /** True for results in float32, and for gradients to which the call adds. */
  readonly isExact?: boolean;
  /**
   * The memory of queries, keys and values: a tensor each, the parts of one packed projection, or a tensor
   * each with unused elements between the heads.
   */
  readonly memory?: 'tensors' | 'projection' | 'gaps';
  readonly dtypes?: readonly DType[];
  readonly isOnlyForCuda?: boolean;
  readonly isOnlyForHost?: boolean;
}

/** The samples of a case. */
export type Samples = Pick<AttentionCase, 'queries' | 'keys' | 'isPacked' | 'rest'>;

/** Describes whole samples of one length. */
export function padded(sequence: number, batch = 1): Samples {
  const all: Range[] = new Array<Range>(batch).fill([0, sequence]);
  return { queries: all, keys: all };
}

/** Describes some queries of each sample with some of its keys. */
export function part(queries: Range, keys: Range, batch = 1): Samples {
  return { queries: new Array<Range>(batch).fill(queries), keys: new Array<Range>(batch).fill(keys) };
}

/** Describes whole packed samples, and the number of rows of no sample. */
export function packed(lengths: readonly number[], rest = 0): Samples {
  const all = lengths.map((length): Range => [0, length]);
  return { queries: all, keys: all, isPacked: true, rest: [rest, rest] };
}

/**
 * Describes some queries of each packed sample with some of its keys: the first query, the end of the
 * queries, the first key and the end of the keys of each sample.
 */
export function packedParts(
  samples: ReadonlyArray<readonly [query: number, end: number, key: number, endOfKeys: number]>,
  rest: readonly [queries: number, keys: number] = [0, 0],
): Samples {
  const queries = samples.map(([first, end]): Range => [first, end]);
  return { queries, keys: samples.map(([, , first, end]): Range => [first, end]), isPacked: true, rest };
}

/** Tells which keys are padding of samples of these lengths. */
export const after =
  (lengths: readonly number[]) =>
  (position: number, sample: number): boolean =>
    position >= lengths[sample]!;

export const philoxKey = [0x9e3779b9, 12345] as const;

/** Returns the global number of a sample and of a head, which decide about dropout. */
export const computeSampleNumber = (one: AttentionCase, sample: number): number =>
  one.sampleNumbers?.[sample] ?? 2 ** 33 + 70_000 + sample;
export const computeHeadNumber = ({ firstHead = 3 }: AttentionCase, head: number): number => firstHead + head;

export const sum = (numbers: readonly number[]): number =>
  numbers.reduce((total, number) => total + number, 0);
const measureLength = ([first, end]: Range): number => end - first;

/** Returns the first row of each packed sample, and the end of the last. */
export const computeStarts = (ranges: readonly Range[]): number[] =>
  [0, ...ranges].map((_, index) => sum(ranges.slice(0, index).map(measureLength)));

export interface AttentionShapes {
  readonly query: readonly number[];
  readonly key: readonly number[];
  readonly value: readonly number[];
  readonly output: readonly number[];
  readonly logSumExp: readonly number[];
}

export function listShapes(one: AttentionCase): AttentionShapes {
  const { queries, keys, isPacked, rest = [0, 0], heads, headsPerGroup = 1, headSize } = one;
  const { valueSize = headSize } = one;
  const chooseRows = (ranges: readonly Range[], ofNone: number): number[] =>
    isPacked ? [sum(ranges.map(measureLength)) + ofNone] : [measureLength(ranges[0]!), ranges.length];
  const [ofQueries, ofKeys] = [chooseRows(queries, rest[0]), chooseRows(keys, rest[1])];
  const groups = heads / headsPerGroup;
  return {
    query: [...ofQueries, heads, headSize],
    key: [...ofKeys, groups, headSize],
    value: [...ofKeys, groups, valueSize],
    output: [...ofQueries, heads, valueSize],
    logSumExp: isPacked ? [heads, ...ofQueries] : [queries.length, heads, ofQueries[0]!],
  };
}

/** The number of unused elements between two heads of memory 'gaps'. */
const gap = 5;

/** Returns the shape of the projection of a case: its last dimensions are the rows of a group. */
function projectionShape(one: AttentionCase): readonly number[] {
  const { headsPerGroup = 1, headSize, valueSize = headSize } = one;
  const outer = listShapes(one).key.slice(0, -1);
  return valueSize === headSize
    ? [...outer, headsPerGroup + 2, headSize]
    : [...outer, (headsPerGroup + 1) * headSize + valueSize];
}

/** Declares the tensors that hold queries, keys and values or, with a suffix, their gradients. */
export function projectedSpecs(one: AttentionCase, suffix: '' | 'Gradient' = ''): Record<string, TensorSpec> {
  const { memory = 'tensors', isExact = false } = one;
  const isGradient = suffix !== '';
  const declareSpec = (shape: readonly number[]): TensorSpec => ({
    shape,
    output: isGradient,
    // elements between the heads stay as they are
    accumulated: isGradient && (isExact || memory === 'gaps'),
    ...(isGradient && isExact && { dtype: 'float32' }),
  });
  if (memory === 'projection') return { [`qkv${suffix}`]: declareSpec(projectionShape(one)) };
  const { query, key, value } = listShapes(one);
  return Object.fromEntries(
    Object.entries({ query, key, value }).map(([name, shape]) => [
      `${name}${suffix}`,
      declareSpec(memory === 'gaps' ? [...shape.slice(0, -1), shape.at(-1)! + gap] : shape),
    ]),
  );
}

const computeStrides = (shape: readonly number[]): number[] =>
  shape.map((_, dim) => shape.slice(dim + 1).reduce((size, inner) => size * inner, 1));

/** Returns the parts of a projection whose values have a head size of their own. */
function splitUnequal(one: AttentionCase, projection: Tensor): Record<'query' | 'key' | 'value', Tensor> {
  const { headsPerGroup = 1, headSize, valueSize = headSize } = one;
  const [outer, strides] = [projection.shape.slice(0, -1), computeStrides(projection.shape)];
  const row = (offset: number, size: number) =>
    projection.strided({ offset, shape: [...outer, size], strides });
  return {
    query: projection.strided({
      shape: [...outer, headsPerGroup, headSize],
      strides: [...strides.slice(0, -1), headSize, 1],
    }),
    key: row(headsPerGroup * headSize, headSize),
    value: row((headsPerGroup + 1) * headSize, valueSize),
  };
}

/** Returns queries, keys and values as views of the tensors that hold them. */
export function viewOperands(
  one: AttentionCase,
  tensors: Tensors,
  suffix: '' | 'Gradient' = '',
): Record<'query' | 'key' | 'value', Tensor> {
  const { memory = 'tensors', headSize, valueSize = headSize } = one;
  const [qkv, query, key, value] = ['qkv', 'query', 'key', 'value'].map((name) => tensors[name + suffix]!);
  if (memory === 'projection')
    return valueSize === headSize ? splitProjection(qkv!) : splitUnequal(one, qkv!);
  if (memory === 'tensors') return { query: query!, key: key!, value: value! };
  const withoutGaps = (tensor: Tensor) =>
    tensor.strided({
      shape: [...tensor.shape.slice(0, -1), tensor.shape.at(-1)! - gap],
      strides: computeStrides(tensor.shape),
    });
  return { query: withoutGaps(query!), key: withoutGaps(key!), value: withoutGaps(value!) };
}

/** Returns the index in the tensor that holds it of every element of an operand, in the operand's order. */
export function listElements(one: AttentionCase, name: 'query' | 'key' | 'value'): Float64Array {
  const { memory = 'tensors', headsPerGroup = 1, headSize } = one;
  const shape = listShapes(one)[name];
  const [heads, size] = [shape.at(-2)!, shape.at(-1)!];
  const width = projectionShape(one)
    .slice(shape.length - 1)
    .reduce((product, dim) => product * dim, 1);
  const members = name === 'query' ? headsPerGroup : 1;
  const first = { query: 0, key: headsPerGroup * headSize, value: (headsPerGroup + 1) * headSize }[name];
  return Float64Array.from({ length: shape.reduce((product, dim) => product * dim, 1) }, (_, index) => {
    const [row, d] = [Math.floor(index / size), index % size]; // rows of heads
    if (memory === 'tensors') return index;
    if (memory === 'gaps') return row * (size + gap) + d;
    const [position, head] = [Math.floor(row / heads), row % heads];
    const group = position * (heads / members) + Math.floor(head / members);
    return group * width + first + (head % members) * size + d;
  });
}

/** The sample of a row of queries or keys, and its position in the sequence of the sample. */
export interface Place {
  readonly sample: number;
  readonly position: number;
}

/** Returns the place of every row of queries or keys; undefined for a row of no sample. */
export function listPlaces(one: AttentionCase, of: 'queries' | 'keys'): Array<Place | undefined> {
  const { isPacked, rest = [0, 0] } = one;
  const perSample = one[of].map(([first, end], sample) =>
    Array.from({ length: end - first }, (_, index): Place => ({ sample, position: first + index })),
  );
  if (!isPacked) return perSample[0]!.flatMap((_, index) => perSample.map((places) => places[index]));
  return [...perSample.flat(), ...new Array<undefined>(rest[of === 'queries' ? 0 : 1])];
}

/** Returns the index in logSumExp of a row of queries and a head. */
export function statisticAt(one: AttentionCase, row: number, head: number): number {
  const { logSumExp } = listShapes(one);
  const [batch, numRows] = [one.queries.length, logSumExp.at(-1)!];
  if (one.isPacked) return head * numRows + row;
  return ((row % batch) * one.heads + head) * numRows + Math.floor(row / batch);
}

/** Returns the position of the first query of the document of a query. */
export function documentStart(documents: readonly number[], position: number): number {
  const period = sum(documents);
  let start = Math.floor(position / period) * period;
  for (const length of documents) {
    if (position < start + length) break;
    start += length;
  }
  return start;
}

/** Declares the tensors that hide keys or decide about dropout. */
export function visibilitySpecs(one: AttentionCase): Record<string, TensorSpec> {
  const { queries, keys, isPacked, documents, isPadding, dropout } = one;
  const int32 = (values: readonly number[]): TensorSpec => ({
    shape: [values.length],
    dtype: 'int32',
    values,
  });
  const specs: Record<string, TensorSpec> = {};
  if (isPacked) {
    specs.starts = int32(computeStarts(keys));
    if (keys.some(([first]) => first !== 0)) specs.firstKeys = int32(keys.map(([first]) => first));
    if (queries !== keys) {
      specs.queryStarts = int32(computeStarts(queries));
      specs.firstQueries = int32(queries.map(([first]) => first));
    }
  }
  const of = (ranges: readonly Range[], value: (position: number, sample: number) => number) => {
    const [[first, end], batch] = [ranges[0]!, ranges.length];
    const values = Array.from({ length: batch * (end - first) }, (_, index) =>
      value(first + (index % (end - first)), Math.floor(index / (end - first))),
    );
    return { shape: [batch, end - first], values };
  };
  if (documents) {
    specs.keyStart = { ...of(queries, (position) => documentStart(documents, position)), dtype: 'int32' };
  }
  if (isPadding) {
    specs.keyMask = {
      ...of(keys, (position, sample) => Number(!isPadding(position, sample))),
      dtype: 'uint8',
    };
  }
  if (dropout !== undefined) {
    const values = (sample: number) => computeSampleNumber(one, sample);
    specs.samples = { shape: [queries.length], dtype: 'int64', values };
  }
  return specs;
}

/** Returns the number of scores of packed samples. */
export const countScores = ({ queries, keys }: AttentionCase): number =>
  sum(queries.map((range, sample) => measureLength(range) * measureLength(keys[sample]!)));

/** Returns the options of a call from the tensors that `visibilitySpecs` declares. */
export function makeOptions(one: AttentionCase, tensors: Tensors): AttentionOptions {
  const { queries, keys, isPacked, causal, windowSize, dropout, scale } = one;
  const { starts, firstKeys, queryStarts, firstQueries, keyStart, keyMask, samples } = tensors;
  const findLongest = (ranges: readonly Range[]) => Math.max(...ranges.map(measureLength));
  const packedSamples = {
    starts: starts!,
    longest: findLongest(keys),
    numScores: countScores(one),
    first: firstKeys,
    queries: queryStarts && { starts: queryStarts, longest: findLongest(queries), first: firstQueries },
  };
  const inSequence = { firstQuery: queries[0]![0], firstKey: keys[0]![0], keyStart, keyMask };
  const [keyLow, keyHigh] = philoxKey;
  return {
    visibility: { causal, windowSize, ...(isPacked ? { packed: packedSamples } : inSequence) },
    dropout:
      dropout === undefined
        ? undefined
        : { probability: dropout, keyLow, keyHigh, samples: samples!, headOffset: computeHeadNumber(one, 0) },
    ...(scale !== undefined && { scale }),
  };
}
