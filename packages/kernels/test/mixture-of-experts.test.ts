import { afterAll, describe, expect, it } from 'vitest';
import {
  addCounts,
  cast,
  combineRows,
  type Device,
  type DType,
  dropOverCapacity,
  expertActivationForward,
  groupByExpert,
  groupedMatmul,
  groupedWeightGradient,
  hostInformation,
  permuteRows,
  type RouterForwardOptions,
  routerForward,
  routerStatisticsBackward,
  routerStatisticsForward,
  setInstructionSet,
  setNumThreads,
  Tensor,
  tidy,
  updateExpertBias,
} from '../src/index.js';
import { uniformStream } from './op-cases/case-tensors.js';
import { refusal } from './support/refusals.js';

const { numThreads, detectedInstructionSet } = hostInformation();
afterAll(() => {
  setNumThreads(numThreads);
  setInstructionSet(detectedInstructionSet);
});

const sets = hostInformation().usableInstructionSets;
const places = [
  { device: 'reference', level: detectedInstructionSet } as const,
  ...sets.map((level) => ({ device: 'cpu', level }) as const),
];

const tensor = (values: readonly number[], shape: readonly number[], options: Partial<Place> = {}): Tensor =>
  Tensor.from(values, { shape, dtype: options.dtype ?? 'float32', device: options.device ?? 'cpu' });
interface Place {
  readonly device: Device;
  readonly dtype: DType;
}

/** Compares with golden numbers, which have six digits. */
function expectClose(actual: readonly number[], expected: readonly number[]): void {
  expect(actual).toHaveLength(expected.length);
  actual.forEach((value, index) => void expect(Math.abs(value - expected[index]!)).toBeLessThan(1.5e-6));
}

const token = [0.5, -1, 2, 1];
const tokens = [...token, 1.5, 0, -0.5, 0.2, 0.1, 0.4, 2.5, -2];

// Numbers of double precision from a script on the formulas of Megatron-LM and DeepSeek-V3.
describe.each(places)('golden numbers on $device $level', ({ device, level }) => {
  const routed = (
    logits: readonly number[],
    options: Omit<RouterForwardOptions, 'logits' | 'probabilities' | 'experts' | 'expertBias'> & {
      bias?: readonly number[];
    },
  ): [number[], number[]] =>
    tidy(() => {
      setInstructionSet(level);
      const { bias, ...rest } = options;
      const { probabilities, experts } = routerForward({
        logits: tensor(logits, [1, logits.length], { device }),
        expertBias: bias && tensor(bias, [bias.length], { device }),
        topK: 2,
        ...rest,
      });
      return [experts.toArray(), probabilities.toArray()];
    });

  it.each([
    [{ scoreFunction: 'softmax' }, [2, 3], [0.731059, 0.268941]],
    [{ scoreFunction: 'softmax', preSoftmax: true }, [2, 3], [0.60946, 0.224208]],
    [{ scoreFunction: 'sigmoid' }, [2, 3], [0.546449, 0.453551]],
    [{ scoreFunction: 'sigmoid', bias: [0.3, 0, -0.5, 0] }, [0, 3], [0.459883, 0.540117]],
    [{ scoreFunction: 'sigmoid', bias: [0.3, 0, -0.5, 0], scalingFactor: 2.5 }, [0, 3], [1.149706, 1.350294]],
    [{ scoreFunction: 'sqrtsoftplus' }, [2, 3], [0.55998, 0.44002]],
  ] as const)('of a router: %o', (options, experts, probabilities) => {
    const [actual, weights] = routed(token, options);
    expect(actual).toEqual(experts);
    expectClose(weights, probabilities);
  });

  it('of groups, which are ranked by the sum of their two largest scores, or by the largest', () => {
    const logits = [3, -2, 1.6, 1.5, 2, -1, 0, 0.2];
    const options = { scoreFunction: 'sigmoid', numGroups: 4 } as const;
    expect(routed(logits, { ...options, groupTopK: 1 })[0]).toEqual([2, 3]);
    // 2 of 2 experts: the largest of each group
    expect(routed(logits, { ...options, groupTopK: 2 })[0]).toEqual([0, 4]);
  });

  it('of a balancing loss and a z-loss, and their gradients', () => {
    tidy(() => {
      setInstructionSet(level);
      const logits = tensor(tokens, [3, 4], { device });
      const sums = routerStatisticsForward({ logits, topK: 2, scoreFunction: 'softmax', numSequences: 1 });
      const counts = sums.counts.toArray();
      expect(counts).toEqual([1, 1, 2, 2]);
      const scores = sums.scoreSums.toArray();
      expectClose(scores, [0.82321, 0.267172, 1.509241, 0.400377]);
      const factor = 4 / (2 * 3 * 3);
      expectClose([factor * counts.reduce((sum, count, e) => sum + count * scores[e]!, 0)], [1.091026]);
      expectClose([sums.squaredLogSumExp.item() / 3], [5.828514]);
      const gradient = routerStatisticsBackward({
        scoreGradients: tensor(
          counts.map((count) => count * factor),
          [1, 4],
          { device },
        ),
        logits,
        scoreFunction: 'softmax',
        numSequences: 1,
      });
      expectClose(gradient.toArray().slice(0, 4), [-0.025193, -0.005621, 0.022527, 0.008287]);
      const sigmoid = routerStatisticsForward({ logits, topK: 2, scoreFunction: 'sigmoid', numSequences: 1 });
      const loss = sigmoid.scoreSums.toArray().reduce((sum, score, e) => sum + counts[e]! * score, 0);
      expectClose([factor * loss], [1.008548]);
    });
  });

  it('of the entropy of uniform scores: ln E, of rows that count alone', () => {
    tidy(() => {
      setInstructionSet(level);
      const { entropy, counts } = routerStatisticsForward({
        logits: tensor([1, 1, 1, 5, 0, 0, 2, 2, 2], [3, 3], { device }),
        rowWeights: tensor([1, 0, 0.5], [3], { device }),
        topK: 1,
        scoreFunction: 'softmax',
        numSequences: 1,
      });
      expectClose([entropy.item()], [2 * Math.log(3)]);
      expect(counts.toArray()).toEqual([2, 0, 0]);
    });
  });

  it('of the activation of gpt-oss', () => {
    tidy(() => {
      setInstructionSet(level);
      const output = expertActivationForward({
        input: tensor([2, -1.5, 9, -8, -3, 9], [3, 2], { device }),
        offsets: tensor([0, 3], [2], { device, dtype: 'int32' }),
        activation: 'clampedQuickGeglu',
        clamp: 7,
        linearOffset: 1,
      });
      // values of 42 have a last bit of 4e-6 in float32
      const expected = [-0.967829, -41.999719, -0.14457];
      output
        .toArray()
        .forEach((value, at) => void expect(Math.abs(value - expected[at]!)).toBeLessThan(4e-6));
    });
  });

  it('of an update of the bias, in integers that float32 would round', () => {
    tidy(() => {
      setInstructionSet(level);
      const update = (counts: readonly number[]): number[] => {
        const expertBias = tensor(Array(counts.length).fill(0), [counts.length], { device });
        const counted = tensor(counts, [counts.length], { device, dtype: 'int64' });
        updateExpertBias({ expertBias, counts: counted, rate: 1e-3 });
        return expertBias.toArray().map((value) => Math.sign(value));
      };
      expect(update([1, 1, 2, 2])).toEqual([1, 1, -1, -1]);
      expect(update([40840, 40841, 40842, 40841])).toEqual([1, 0, -1, 0]);
      expect(update([2 ** 40, 2 ** 40 + 1, 2 ** 40 - 1])).toEqual([0, -1, 1]);
      const counts = tensor([2 ** 40, 3], [2], { device, dtype: 'int64' });
      addCounts({ counts, offsets: tensor([0, 5, 5], [3], { device, dtype: 'int32' }) });
      expect(counts.toArray()).toEqual([2 ** 40 + 5, 3]);
    });
  });
});

describe('groups of sigmoid scores', () => {
  it('keep the sum of the top 2 where k is 2 groupTopK', () => {
    tidy(() => {
      // with k 4 and 2 groups, sums of two: groups 1 and 2, all their experts are used
      const { experts } = routerForward({
        logits: tensor([3, -2, 1.6, 1.5, 2, -1, 0, 0.2], [1, 8]),
        topK: 4,
        scoreFunction: 'sigmoid',
        numGroups: 4,
        groupTopK: 2,
      });
      expect(experts.toArray()).toEqual([4, 2, 3, 5]);
    });
  });
});

describe.each(['cpu', 'reference'] as const)('rows by expert on device %s', (device) => {
  const integers = (values: readonly number[], shape: readonly number[]): Tensor =>
    tensor(values, shape, { device, dtype: 'int32' });

  it('keep their order, dropped slots are nowhere, and come back to their rows', () => {
    tidy(() => {
      const experts = integers([2, 0, 0, -1, 2, 2], [3, 2]);
      const { offsets, positions, sources } = groupByExpert({ experts, numExperts: 4 });
      expect(offsets.toArray()).toEqual([0, 2, 2, 5, 5]);
      expect(positions.toArray()).toEqual([2, 0, 1, -1, 3, 4]);
      expect(sources.toArray()).toEqual([1, 2, 0, 4, 5, -1]);
      const input = tensor([1, 10, 100], [3, 1], { device });
      const rows = permuteRows({ input, sources, topK: 2 });
      expect(rows.toArray()).toEqual([1, 10, 1, 100, 100, 0]);
      expect(combineRows({ rows, positions }).toArray()).toEqual([2, 10, 200]);
    });
  });

  it('are dropped over capacity by probability or position', () => {
    tidy(() => {
      const experts = integers([0, 0, 1, 0, -1, 0], [6, 1]);
      const probabilities = tensor([0.5, 0.7, 0.1, 0.7, 0.9, 0.5], [6, 1], { device });
      const drop = (capacity: number, byPosition: boolean): number[] =>
        dropOverCapacity({ experts, probabilities, numExperts: 2, capacity, byPosition }).toArray();
      expect(drop(3, false)).toEqual([0, 0, 1, 0, -1, -1]);
      expect(drop(1, false)).toEqual([-1, 0, 1, -1, -1, -1]);
      expect(drop(2, true)).toEqual([0, 0, 1, -1, -1, -1]);
      expect(drop(0, false)).toEqual([-1, -1, -1, -1, -1, -1]);
      expect(drop(6, true)).toEqual([0, 0, 1, 0, -1, 0]);
    });
  });

  it('refuse indices that are none', () => {
    tidy(() => {
      const input = tensor([1, 2, 3, 4], [4, 1], { device });
      for (const wrong of [-2, 4, 1_000_000_000]) {
        const experts = integers([0, wrong], [2, 1]);
        const expected = new RegExp(`^MTL_INDEX: \\w+: \\w+\\[1\\] is ${wrong}, expected -1 to 3$`);
        expect(refusal(() => groupByExpert({ experts, numExperts: 4 }))).toMatch(expected);
        const probabilities = tensor([1, 1], [2, 1], { device });
        expect(
          refusal(() => dropOverCapacity({ experts, probabilities, numExperts: 4, capacity: 1 })),
        ).toMatch(expected);
        expect(refusal(() => combineRows({ rows: input, positions: experts }))).toMatch(expected);
        const sources = integers([0, wrong], [2]);
        expect(refusal(() => permuteRows({ input, sources, topK: 1 }))).toMatch(expected);
      }
      const logits = tensor([1, 2], [1, 2], { device });
      const chosen = integers([-1], [1, 1]);
      expect(refusal(() => routerForward({ logits, chosen, topK: 1, scoreFunction: 'softmax' }))).toMatch(
        /^MTL_INDEX: router_forward: chosen\[0\] is -1, expected 0 to 1$/,
      );
    });
  });

  it.each([
    [[1, 2], 'offsets[0] is 1, expected 0 to 0'],
    [[0, 5], 'offsets[1] is 5, expected 0 to 4'],
    [[0, 3, 2], 'offsets[2] is 2, expected 3 to 4'],
  ])('refuse offsets that are none: %j', (values, what) => {
    tidy(() => {
      const input = tensor([1, 2, 3, 4], [4, 1], { device });
      const offsets = integers(values, [values.length]);
      const weights = tensor(Array(values.length - 1).fill(1), [values.length - 1, 1, 1], { device });
      expect(refusal(() => groupedMatmul({ input, weights, offsets }))).toBe(
        `MTL_INDEX: grouped_matmul: ${what}`,
      );
      expect(refusal(() => groupedWeightGradient({ outputGradient: input, input, offsets }))).toBe(
        `MTL_INDEX: grouped_weight_gradient: ${what}`,
      );
    });
  });
});

describe.each(sets)('an element of a grouped matmul has the same bits: %s', (level) => {
  const [rows, inputs, outputs] = [700, 1603, 130];
  const values = (size: number, seed: number): Float32Array => {
    const next = uniformStream(seed);
    return Float32Array.from({ length: size }, () => next() - 0.5);
  };
  /** Rounds numbers with the kernels, because `Tensor.from` rounds one number at a time. */
  const rounded = (numbers: Float32Array, shape: readonly number[], dtype: DType): Tensor =>
    cast({ input: Tensor.from(numbers, { shape, dtype: 'float32' }), dtype });
  const [allInputs, oneWeight] = [values(rows * inputs, 1), values(outputs * inputs, 2)];

  it.each(['float32', 'bfloat16', 'float16'] as const)('for any grouping and threads, %s', (dtype) => {
    tidy(() => {
      setInstructionSet(level);
      const input = rounded(allInputs, [rows, inputs], dtype);
      const one = rounded(oneWeight, [1, outputs, inputs], dtype);
      const weights = (groups: number): Tensor => {
        const all = Tensor.empty({ shape: [groups, outputs, inputs], dtype, device: 'cpu' });
        const bits = one.read();
        const repeated = new (bits.constructor as Uint16ArrayConstructor)(bits.length * groups);
        for (let group = 0; group < groups; group++) repeated.set(bits as Uint16Array, group * bits.length);
        all.write(repeated);
        return all;
      };
      const run = (bounds: readonly number[], threads: number): ArrayLike<number | bigint> => {
        setNumThreads(threads);
        const offsets = tensor([0, ...bounds], [bounds.length + 1], { dtype: 'int32' });
        return groupedMatmul({
          input,
          weights: weights(bounds.length),
          offsets,
          transposeWeights: true,
        }).read();
      };
      const expected = run([rows], 1);
      for (const bounds of [
        [1, 2, 5, 5, 12, 300, 301, 699, 700],
        [350, 700],
        [0, 0, 700],
      ]) {
        for (const threads of [1, 2, 3]) expect(run(bounds, threads)).toEqual(expected);
      }
    });
  });

  it.each(['float32', 'bfloat16', 'float16'] as const)(
    'of weight gradients for any other groups, %s',
    (dtype) => {
      tidy(() => {
        setInstructionSet(level);
        // a group of 210 rows between others, and alone
        const [first, length] = [33, 210];
        const input = rounded(values(rows * 70, 3), [rows, 70], dtype);
        const outputGradient = rounded(values(rows * 90, 4), [rows, 90], dtype);
        const run = (bounds: readonly number[], group: number, threads: number): number[] => {
          setNumThreads(threads);
          const offsets = tensor([0, ...bounds], [bounds.length + 1], { dtype: 'int32' });
          const gradient = groupedWeightGradient({ outputGradient, input, offsets });
          return gradient.rows(group, group + 1).toArray();
        };
        const expected = run([first, first + length, first + length], 1, 1);
        expect(expected.some((value) => value !== 0)).toBe(true);
        for (const threads of [1, 2, 3]) {
          expect(run([0, 10, first, first + length, 400, rows], 3, threads)).toEqual(expected);
        }
      });
    },
  );
});
