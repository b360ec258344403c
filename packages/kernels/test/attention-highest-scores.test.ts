import { afterAll, describe, expect, it } from 'vitest';
import {
  attentionForward,
  type Device,
  type DType,
  hostInformation,
  setInstructionSet,
  setNumThreads,
  Tensor,
  tidy,
} from '../src/index.js';
import { makeTensors } from './op-cases/case-tensors.js';
import {
  type AttentionCase,
  listPlaces,
  makeOptions,
  packed,
  padded,
  viewOperands,
} from './support/attention-case.js';
import { type AttentionValues, sees } from './support/attention-oracle.js';
import { attend, attentionValues, inputSpecs, resultSpecs } from './support/attention-run.js';

const { detectedInstructionSet, numThreads } = hostInformation();
const levels = hostInformation().usableInstructionSets;
afterAll(() => {
  setInstructionSet(detectedInstructionSet);
  setNumThreads(numThreads);
});

/** Computes the highest score of each head over the keys that its queries see, in double. */
function computeHighest(one: AttentionCase, { query, key }: AttentionValues): number[] {
  const { heads, headsPerGroup = 1, headSize, scale = 1 / Math.sqrt(headSize) } = one;
  const [queries, keys] = [listPlaces(one, 'queries'), listPlaces(one, 'keys')];
  return Array.from({ length: heads }, (_, head) => {
    const group = Math.floor(head / headsPerGroup);
    let highest = Number.NEGATIVE_INFINITY;
    for (const [row, of] of queries.entries()) {
      for (const [index, other] of keys.entries()) {
        if (of === undefined || other === undefined || !sees(one, of, other)) continue;
        let score = 0;
        for (let d = 0; d < headSize; d++) {
          score +=
            query[(row * heads + head) * headSize + d]! *
            key[(index * (heads / headsPerGroup) + group) * headSize + d]!;
        }
        highest = Math.max(highest, scale * score);
      }
    }
    return highest;
  });
}

function raised(
  one: AttentionCase,
  before: readonly number[],
  { device, dtype }: { readonly device: Device; readonly dtype: DType },
): readonly number[] {
  return tidy(() => {
    const { outputGradient: _, ...values } = attentionValues(one);
    const specs = { ...resultSpecs(one), ...inputSpecs(one) };
    const tensors = makeTensors(specs, { device, dtype, seed: 1 });
    const given = Object.fromEntries(
      Object.entries(values).map(([name, of]) => [
        name,
        Tensor.from([...of], { shape: tensors[name]!.shape, dtype, device }),
      ]),
    );
    const all = { ...tensors, ...given };
    const highestScores = Tensor.from([...before], { shape: [one.heads], dtype: 'float32', device });
    const { output, logSumExp } = all as Record<string, Tensor>;
    const operands = { ...viewOperands(one, all), ...makeOptions(one, all) };
    attentionForward({ output: output!, logSumExp, highestScores, ...operands });
    return highestScores.toArray();
  });
}

const causal = true;
const heads = { name: '', heads: 4, headsPerGroup: 2, headSize: 24 };
const cases: ReadonlyArray<readonly [string, AttentionCase]> = [
  ['all keys', { ...heads, ...padded(100, 2) }],
  ['causal, a window and dropout', { ...heads, ...padded(150, 2), causal, windowSize: 20, dropout: 0.2 }],
  [
    'documents and padding',
    { ...heads, ...padded(90, 2), causal, documents: [40, 50], isPadding: (key) => key % 3 === 1 },
  ],
  ['packed', { ...heads, ...packed([70, 1, 66], 3), causal, scale: 0.5 }],
  ['one query', { ...heads, ...padded(1) }],
];

describe('the highest scores of attention', () => {
  it.each(cases)('are the highest products of queries and the keys that they see: %s', (_, one) => {
    const none = new Array<number>(one.heads).fill(Number.NEGATIVE_INFINITY);
    for (const dtype of ['float32', 'bfloat16'] as const) {
      const { inputs } = attend(one, attentionValues(one), { device: 'reference', dtype });
      const expected = computeHighest(one, inputs);
      const check = (device: Device) => {
        for (const [head, score] of raised(one, none, { device, dtype }).entries()) {
          // float32 sums of 24 products of size 1
          expect(Math.abs(score - expected[head]!), `${device} ${dtype}`).toBeLessThan(2e-6);
        }
      };
      check('reference');
      for (const level of levels) {
        setInstructionSet(level);
        for (const threads of [1, 5]) {
          setNumThreads(threads);
          check('cpu');
        }
      }
    }
  });

  it.each<Device>(['cpu', 'reference'])('raise what is there on %s, and never lower it', (device) => {
    const [, one] = cases[0]!;
    const [first, ...rest] = raised(one, [-1e9, 50, 60, -1e9], { device, dtype: 'float32' });
    expect(first).toBeGreaterThan(-10);
    expect(rest.slice(0, 2)).toEqual([50, 60]);
  });

  it('change no bit of the results', () => {
    const [, one] = cases[1]!;
    const values = attentionValues(one);
    const { output } = attend(one, values).results;
    tidy(() => {
      const specs = { ...resultSpecs(one), ...inputSpecs(one) };
      const tensors = makeTensors(specs, { device: 'cpu', dtype: 'float32', seed: 1 });
      for (const name of ['query', 'key', 'value'] as const) {
        using from = Tensor.from([...values[name]], { shape: tensors[name]!.shape, dtype: 'float32' });
        tensors[name]!.write(from.read());
      }
      const highestScores = Tensor.zeros({ shape: [one.heads], dtype: 'float32' });
      attentionForward({
        output: tensors.output!,
        highestScores,
        ...viewOperands(one, tensors),
        ...makeOptions(one, tensors),
      });
      expect(Float64Array.from(tensors.output!.toArray())).toEqual(output);
    });
  });
});
