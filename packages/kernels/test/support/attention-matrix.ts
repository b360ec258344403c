import { uniformStream } from '../op-cases/case-tensors.js';
import {
  type AttentionCase,
  after,
  packed,
  packedParts,
  padded,
  part,
  type Samples,
} from './attention-case.js';

type Choice = Omit<Partial<AttentionCase>, 'name'>;

/** The properties of a case, apart from its samples, and their values. */
const properties: Readonly<Record<string, Readonly<Record<string, Choice>>>> = {
  heads: {
    'multi-head': { heads: 2 },
    grouped: { heads: 4, headsPerGroup: 2 },
    'multi-query': { heads: 3, headsPerGroup: 3 },
  },
  sizes: {
    'E = D': { headSize: 20 },
    'E > D': { headSize: 24, valueSize: 40 },
    'E < D': { headSize: 40, valueSize: 24 },
    'E = 1': { headSize: 16, valueSize: 1 },
    'D = 1': { headSize: 1, valueSize: 9 },
    DeepSeek: { headSize: 192, valueSize: 128 },
  },
  sees: {
    everything: {},
    'keys up to its own': { causal: true },
    'a window': { causal: true, windowSize: 30 },
    'its own key': { causal: true, windowSize: 0 },
  },
  scores: { 'of the default scale': {}, 'of a scale': { scale: 0.4 } },
  caps: { none: {}, 'among the scores': { softCap: 0.7 }, 'above the scores': { softCap: 30 } },
  probabilities: { all: {}, 'with dropout': { dropout: 0.3 } },
  results: { rounded: {}, exact: { isExact: true } },
  memory: { tensors: {}, projection: { memory: 'projection' }, gaps: { memory: 'gaps' } },
  dtype: {
    float32: { dtypes: ['float32'] },
    bfloat16: { dtypes: ['bfloat16'] },
    float16: { dtypes: ['float16'] },
    float64: { dtypes: ['float64'] },
  },
};

/**
 * Sequences of several tiles. A call has all or some queries and keys. The same sequences are also in packed
 * rows.
 */
export const samples: Readonly<Record<'padded' | 'packed', Readonly<Record<string, Samples & Choice>>>> = {
  padded: {
    'whole sequences': padded(90, 2),
    'one sequence': padded(150),
    'one position': padded(1, 2),
    'queries after some keys': part([70, 131], [37, 110], 2),
    'queries after all keys': part([80, 150], [10, 80]),
    'queries before some keys': part([20, 130], [60, 150]),
    'queries before all keys': part([0, 20], [64, 130]),
    'documents of a sequence': { ...padded(110), documents: [33, 50, 7] },
    'documents at positions': { ...part([90, 180], [50, 150], 2), documents: [55] },
    'padding keys': { ...padded(80, 2), isPadding: (key, sample) => (key * 7 + sample) % 5 === 3 },
    'samples of padding': { ...padded(70, 2), isPadding: after([0, 40]) },
    'documents and padding': { ...padded(100, 2), documents: [70, 30], isPadding: after([100, 66]) },
  },
  packed: {
    'whole sequences': packed([70, 0, 1, 67], 6),
    'one sequence': packed([150]),
    'one position': packed([1, 1]),
    'queries after some keys': packedParts(
      [
        [70, 131, 37, 110],
        [3, 5, 0, 9],
      ],
      [3, 0],
    ),
    'queries after all keys': packedParts([
      [80, 150, 10, 80],
      [9, 10, 0, 9],
    ]),
    'queries before some keys': packedParts(
      [
        [20, 130, 60, 150],
        [5, 5, 0, 9],
      ],
      [0, 2],
    ),
    'queries before all keys': packedParts(
      [
        [0, 20, 64, 130],
        [0, 4, 4, 4],
      ],
      [1, 1],
    ),
    // a document is a packed sample whose keys begin later in its sequence
    'documents of a sequence': packedParts([
      [0, 33, 0, 33],
      [33, 83, 33, 83],
      [83, 90, 83, 90],
    ]),
    'documents at positions': packedParts(
      [
        [110, 165, 110, 150],
        [165, 180, 165, 170],
      ],
      [2, 1],
    ),
    // padding keys are left out, and a sample of padding is empty
    'padding keys': packed([64, 37]),
    'samples of padding': packed([0, 40]),
    'documents and padding': packedParts([
      [0, 70, 0, 66],
      [70, 100, 70, 90],
    ]),
  },
};

/** A case, and the value of each of its properties by name. */
export interface MatrixCase {
  readonly one: AttentionCase;
  readonly values: Readonly<Record<string, string>>;
}

function makeCase(packing: 'padded' | 'packed', values: Readonly<Record<string, string>>): MatrixCase {
  const chosen = Object.entries(values).flatMap(([property, value]) => properties[property]?.[value] ?? []);
  const of = samples[packing][values.samples!]!;
  const all: Choice & Samples = Object.assign({}, ...chosen, of);
  // parts of one projection have the same rows
  const hasOneRow = all.queries.every(
    ([first, end], index) => String([first, end]) === String(all.keys[index]),
  );
  const isSplit = !hasOneRow && all.memory === 'projection';
  const name = [packing, ...Object.values(values)].join(', ');
  const one: AttentionCase = { heads: 1, headSize: 8, ...all, name, ...(isSplit && { memory: 'gaps' }) };
  return { one, values: { ...values, packing, ...(isSplit && { memory: 'gaps' }) } };
}

/**
 * Returns cases in which every value of every property meets padded and packed samples, with the other
 * properties drawn at random, the same in every run.
 */
export function attentionMatrix(): MatrixCase[] {
  const next = uniformStream(2026);
  const draw = <T>(from: readonly T[]): T => from[Math.floor(next() * from.length)]!;
  return (['padded', 'packed'] as const).flatMap((packing) => {
    const choices = { ...properties, samples: samples[packing] };
    return Object.entries(choices).flatMap(([property, values]) =>
      Object.keys(values).map((value) => {
        const drawn = Object.entries(choices).map(([other, of]) => [other, draw(Object.keys(of))]);
        // a projection needs whole samples
        const whole = value === 'projection' ? { samples: 'whole sequences' } : {};
        return makeCase(packing, { ...Object.fromEntries(drawn), ...whole, [property]: value });
      }),
    );
  });
}

/** Returns the values of all properties, as `property: value`. */
export const matrixValues = (): string[] =>
  Object.entries({ ...properties, samples: samples.padded }).flatMap(([property, values]) =>
    Object.keys(values).map((value) => `${property}: ${value}`),
  );
