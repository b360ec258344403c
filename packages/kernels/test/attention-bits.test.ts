import { afterEach, describe, expect, it } from 'vitest';
import {
  bfloat16Bits,
  bfloat16Value,
  type Device,
  hostInformation,
  type InstructionSet,
  setInstructionSet,
  setNumThreads,
} from '../src/index.js';
import {
  type AttentionCase,
  after,
  computeSampleNumber,
  listShapes,
  packed,
  packedParts,
  padded,
  part,
} from './support/attention-case.js';
import { moveResults, moveValues, selectHeads } from './support/attention-rows.js';
import {
  attend,
  attentionValues,
  computeBackward,
  computeForward,
  type Run,
} from './support/attention-run.js';

// Calls whose results are the same bits, with padded and with packed samples.

const { numThreads, detectedInstructionSet: detected } = hostInformation();
const levels = hostInformation().usableInstructionSets;
const devices: Array<readonly [Device, InstructionSet]> = [
  ['reference', 'plain'],
  ...levels.map((level) => ['cpu', level] as const),
];
afterEach(() => {
  setInstructionSet(detected);
  setNumThreads(numThreads);
});

const causal = true;
type More = Omit<Partial<AttentionCase>, 'name'>;
const made = (samples: More, more: More = {}): AttentionCase => ({
  name: '',
  queries: [],
  keys: [],
  heads: 2,
  headSize: 16,
  ...samples,
  ...more,
});

const run = (one: AttentionCase, how: Run = {}) => attend(one, attentionValues(one), how).results;

describe.each([
  ['padded', padded(130, 3), padded(130), padded(300), padded(70, 3)],
  ['packed', packed([130, 1, 99], 4), packed([130]), packed([300], 2), packed([70, 1, 66], 3)],
] as const)('attention with %s samples', (_, three, single, long, some) => {
  it('repeats bitwise', () => {
    for (const threads of [1, 2, 3]) {
      setNumThreads(threads);
      for (const one of [made(three, { causal, dropout: 0.2 }), made(single, { heads: 1, dropout: 0.2 })]) {
        const first = run(one);
        for (let repetition = 0; repetition < 5; repetition++) expect(run(one)).toEqual(first);
      }
    }
  });

  it('gives the same output whatever the number of threads, and gradients but for the order of sums', () => {
    const one = made(long, { heads: 1, headSize: 48, valueSize: 40, causal, dropout: 0.2 });
    setNumThreads(1);
    const { output, logSumExp, ...gradients } = run(one);
    setNumThreads(4);
    const results = run(one);
    expect(results.output).toEqual(output);
    expect(results.logSumExp).toEqual(logSumExp);
    for (const name of ['query', 'key', 'value'] as const) {
      const differences = results[name].map((value, index) => Math.abs(value - gradients[name][index]!));
      // query gradients are summed in parts, enough to keep the threads busy: 300 terms of size 0.1, in
      // float32
      expect(Math.max(...differences), name).toBeLessThan(1e-6);
    }
  });

  it('drops the same probabilities however heads and samples are distributed', () => {
    setNumThreads(1); // more divide few heads into parts, whose gradients are then added up
    const whole = made(some, { heads: 4, valueSize: 20, causal, dropout: 0.5 });
    const values = attentionValues(whole);
    const all = attend(whole, values).results;
    for (const [sample, range] of some.queries.entries()) {
      const [ranges, sampleNumbers] = [[range], [computeSampleNumber(whole, sample)]];
      const alone: AttentionCase = { ...whole, queries: ranges, keys: ranges, rest: [0, 0], sampleNumbers };
      const move = { from: whole, to: alone };
      for (const first of [0, 2]) {
        const heads = [first, 2] as const;
        const ofHeads = { ...alone, heads: 2, firstHead: 3 + first };
        const actual = attend(ofHeads, selectHeads(alone, moveValues(values, move), heads)).results;
        const { logSumExp, output, ...gradients } = moveResults(all, move);
        const expected = selectHeads(alone, { ...gradients, outputGradient: output }, heads);
        expect(actual.output).toEqual(expected.outputGradient);
        const rows = logSumExp.length / 4;
        expect(actual.logSumExp).toEqual(logSumExp.slice(first * rows, (first + 2) * rows));
        for (const name of ['query', 'key', 'value'] as const) expect(actual[name]).toEqual(expected[name]);
      }
    }
  });

  it('of grouped queries is attention with a copy of keys and values for every head', () => {
    setNumThreads(1); // more divide few groups into parts, whose gradients are then added up
    const grouped = made(some, { heads: 6, headsPerGroup: 3, valueSize: 9, causal, scale: 0.3 });
    const values = attentionValues(grouped);
    const shapes = listShapes(grouped);
    const copies = (source: Float64Array, size: number) =>
      Float64Array.from({ length: source.length * 3 }, (_, index) => {
        return source[Math.floor(index / size / 3) * size + (index % size)]!;
      });
    const own = {
      ...values,
      key: copies(values.key, shapes.key.at(-1)!),
      value: copies(values.value, shapes.value.at(-1)!),
    };
    const [actual, expected] = [
      attend(grouped, values).results,
      attend({ ...grouped, headsPerGroup: 1 }, own).results,
    ];
    for (const name of ['output', 'logSumExp', 'query'] as const) {
      expect(actual[name]).toEqual(expected[name]);
    }
  });

  it('reads and writes every memory alike', () => {
    for (const valueSize of [12, 7]) {
      const one = made(some, { heads: 4, headsPerGroup: 2, headSize: 12, valueSize, causal });
      const tensors = run(one);
      for (const memory of ['projection', 'gaps'] as const) {
        expect(run({ ...one, memory })).toEqual(tensors);
      }
    }
  });

  describe.each(devices)('on %s, %s', (device, level) => {
    const shared = { heads: 2, headsPerGroup: 2, headSize: 20 };

    it('in float32 has the results in bfloat16 before they are rounded', () => {
      setInstructionSet(level);
      const rounded = made(three, { ...shared, causal });
      const exact = { ...rounded, isExact: true };
      const values = attentionValues(rounded);
      const how = { device, dtype: 'bfloat16' } as const;
      const expected = attend(rounded, values, how).results;
      const { output, logSumExp } = computeForward(exact, values, how);
      const gradients = computeBackward(exact, values, { ...how, output: expected.output, logSumExp });
      const toBfloat16 = (value: number) => bfloat16Value(bfloat16Bits(value));
      for (const [name, numbers] of Object.entries({ output, ...gradients })) {
        expect(numbers.map(toBfloat16), name).toEqual(expected[name as keyof typeof expected]);
        // by chance one value in 256 has only 8 bits, and so have zeros
        const numLonger = numbers.filter((value) => toBfloat16(value) !== value).length;
        expect(numLonger, name).toBeGreaterThan(numbers.length / 2);
      }
    });

    it('adds to gradients', () => {
      setInstructionSet(level);
      const one = made(three, { ...shared, causal, isExact: true });
      const values = attentionValues(one);
      const results = computeForward(one, values, { device });
      const once = computeBackward(one, values, { ...results, device });
      const twice = computeBackward(one, values, { ...results, device, times: 2 });
      for (const name of ['query', 'key', 'value'] as const) {
        // twice a number is exact
        expect(twice[name]).toEqual(once[name].map((value) => 2 * value));
      }
    });

    it.each<[string, More]>([
      ['causal', { causal }],
      ['in a window', { causal, windowSize: 80 }],
      ['not causal', {}],
    ])('of some queries with all keys is the part of the whole: %s', (_, masks) => {
      setInstructionSet(level);
      const isPacked = 'isPacked' in three;
      const lengths = [230, 40];
      const whole = made(isPacked ? packed(lengths) : padded(230, 2), { ...shared, ...masks, dropout: 0.3 });
      const values = attentionValues(whole);
      for (const dtype of ['float32', 'bfloat16'] as const) {
        const all = computeForward(whole, values, { device, dtype });
        for (const [first, end] of [
          [0, 70],
          [37, 150],
          [129, 130],
          [150, 230],
        ] as const) {
          const queries = lengths.map((length) => {
            return [Math.min(first, length), Math.min(end, length), 0, length] as const;
          });
          const some = { ...whole, ...(isPacked ? packedParts(queries) : part([first, end], [0, 230], 2)) };
          const move = { from: whole, to: some };
          const expected = moveResults({ ...values, ...all }, move);
          const { output, logSumExp } = computeForward(some, moveValues(values, move), { device, dtype });
          expect(output).toEqual(expected.output);
          expect(logSumExp).toEqual(expected.logSumExp);
        }
      }
    });
  });
});

describe('attention with packed samples', () => {
  it.each<[NonNullable<Run['dtype']>, More]>([
    ['float32', {}],
    ['float32', { dropout: 0.3 }],
    ['bfloat16', { dropout: 0.3, headsPerGroup: 2 }],
    ['float16', { causal, valueSize: 33 }],
    ['bfloat16', { causal, windowSize: 30, valueSize: 8, isExact: true }],
  ])('has the bits of attention with padding: %s, %j', (dtype, more) => {
    const lengths = [130, 1, 0, 65, 128];
    const rows = made(packed(lengths, 5), more);
    const withPadding = { ...made(padded(130, 5), more), isPadding: after(lengths) };
    const values = attentionValues(rows);
    const actual = attend(rows, values, { dtype }).results;
    const [to, back] = [
      { from: rows, to: withPadding },
      { from: withPadding, to: rows },
    ];
    const expected = attend(withPadding, moveValues(values, to), { dtype }).results;
    expect(actual).toEqual(moveResults(expected, back));
  });
});
