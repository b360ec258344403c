import { attentionCachedForward, type Tensor, tidy } from '../../src/index.js';
import {
  type AttentionCase,
  listShapes,
  part,
  projectedSpecs,
  viewOperands,
} from '../support/attention-case.js';
import { runForward } from '../support/attention-run.js';
import type { OpCase } from './op-case.js';

/** New positions [first, end), after the cached positions before `first`, in caches of M positions. */
interface Step extends Pick<AttentionCase, 'headsPerGroup' | 'valueSize' | 'windowSize' | 'softCap'> {
  readonly positions: readonly [first: number, end: number];
  readonly capacity: number;
  readonly batch: number;
  readonly heads: number;
  readonly headSize: number;
}

const steps: Step[] = [
  { positions: [0, 1], capacity: 4, batch: 1, heads: 2, headSize: 16 },
  { positions: [131, 132], capacity: 140, batch: 2, heads: 1, headSize: 20 },
  // one query has a separate code path: cases of whole tiles of keys, and of head sizes of whole and of
  // single vectors for each width
  { positions: [63, 64], capacity: 64, batch: 1, heads: 3, headSize: 64 },
  { positions: [256, 257], capacity: 300, batch: 2, heads: 3, headSize: 83 },
  { positions: [0, 70], capacity: 70, batch: 1, heads: 2, headSize: 64 },
  { positions: [62, 67], capacity: 100, batch: 2, heads: 2, headSize: 33 },
  { positions: [30, 96], capacity: 128, batch: 1, heads: 1, headSize: 8 },
  { positions: [131, 132], capacity: 140, batch: 2, heads: 6, headSize: 20, headsPerGroup: 3 },
];
const steps33: Step[] = [
  { positions: [62, 67], capacity: 100, batch: 2, heads: 4, headSize: 33, headsPerGroup: 2 },
  { positions: [99, 100], capacity: 100, batch: 2, heads: 4, headSize: 33, headsPerGroup: 2, windowSize: 40 },
  { positions: [92, 97], capacity: 100, batch: 2, heads: 4, headSize: 33, headsPerGroup: 2, windowSize: 40 },
];
const stepsOfValues: Step[] = [
  { positions: [131, 132], capacity: 140, batch: 2, heads: 4, headsPerGroup: 2, headSize: 24, valueSize: 40 },
  { positions: [131, 132], capacity: 140, batch: 1, heads: 2, headSize: 192, valueSize: 128, windowSize: 70 },
  { positions: [62, 67], capacity: 100, batch: 2, heads: 2, headSize: 40, valueSize: 1 },
];
const cappedSteps: Step[] = [
  // whole tiles of keys and a rest, in the code of one query and in tiles
  { positions: [131, 132], capacity: 140, batch: 2, heads: 4, headSize: 24, softCap: 0.9, headsPerGroup: 2 },
  { positions: [62, 67], capacity: 100, batch: 2, heads: 2, headSize: 33, softCap: 0.9, windowSize: 40 },
];

const describeAttention = ({ positions, capacity: _, batch, ...rest }: Step): AttentionCase => ({
  name: '',
  ...part(positions, positions, batch),
  ...rest,
  memory: 'projection',
});

function cachedCase(step: Step): OpCase {
  const { positions, capacity, batch } = step;
  const one = describeAttention(step);
  const { key, value, output } = listShapes(one);
  const [first, end] = positions;
  const { windowSize, softCap, headsPerGroup = 1, valueSize } = one;
  const declareCache = (shape: readonly number[]) => ({
    // values beyond the position do not matter: they stay as they are or are overwritten
    shape: [batch, shape.at(-2)!, capacity, shape.at(-1)!],
    output: true,
    accumulated: true,
  });
  const window = `${windowSize === undefined ? '' : `, window ${windowSize}`}${softCap === undefined ? '' : `, cap ${softCap}`}`;
  return {
    name: `attention_forward cached ${end - first} after ${first} [${output}] in groups of ${headsPerGroup}${window}`,
    operation: 'attention_forward',
    tensors: {
      keyCache: declareCache(key),
      valueCache: declareCache(value),
      output: { shape: output, output: true },
      ...projectedSpecs(one),
    },
    run: (tensors) =>
      tidy(() =>
        attentionCachedForward({
          keyCache: tensors.keyCache!,
          valueCache: tensors.valueCache!,
          output: tensors.output!,
          ...viewOperands(one, tensors),
          position: first,
          windowSize,
          softCap,
        }),
      ),
    dtypes: ['float32', 'bfloat16', 'float16'],
    tolerance: {
      float32: { absolute: 4e-6, relative: 4e-6 },
      // probabilities are rounded to bfloat16 before they are multiplied with the values
      bfloat16: { absolute: 1.5e-2, relative: 2 ** -7 },
      float16: { absolute: 1e-3, relative: 2 ** -10 },
      reason: 'results are means of N(0, 1) values: the error is relative to 1, not to the result',
    },
    ...((valueSize !== undefined || softCap !== undefined) && { isOnlyForHost: true }),
  };
}

/** The same with a position that the operation reads from a tensor. */
function caseOfTensor(step: Step): OpCase {
  const { name, tensors, ...rest } = cachedCase(step);
  const { windowSize, softCap, positions } = step;
  return {
    ...rest,
    name: name.replace('attention_forward', 'attention_cached'),
    operation: 'attention_cached',
    tensors: { ...tensors, position: { shape: [1], dtype: 'int32', values: [positions[0]] } },
    run: (given) => {
      const { keyCache, valueCache, output, position } = given as Record<string, Tensor>;
      tidy(() =>
        attentionCachedForward({
          keyCache: keyCache!,
          valueCache: valueCache!,
          output: output!,
          ...viewOperands(describeAttention(step), given),
          position: position!,
          windowSize,
          softCap,
        }),
      );
    },
    isOnlyForHost: true,
  };
}

/** Without logSumExp, as a cache is read: the keys end before the windows of the last two of four queries. */
function blindCase(): OpCase {
  const sizes = { heads: 2, headsPerGroup: 2, headSize: 8, causal: true, windowSize: 0 };
  const one: AttentionCase = { name: '', ...part([0, 4], [0, 2]), ...sizes };
  return {
    name: 'attention_forward without logSumExp, queries without visible keys',
    operation: 'attention_forward',
    tensors: { output: { shape: listShapes(one).output, output: true }, ...projectedSpecs(one) },
    run: (tensors) => runForward(one, tensors),
  };
}

const decode: Step = { positions: [1023, 1024], capacity: 1024, batch: 8, heads: 12, headSize: 64 };

export const cases: readonly OpCase[] = [
  ...[...steps, ...steps33, ...stepsOfValues, ...cappedSteps].map(cachedCase),
  ...[...steps.slice(0, 2), ...steps33, ...cappedSteps].map(caseOfTensor),
  blindCase(),
  {
    ...cachedCase(decode),
    benchmark: { elements: 2 * decode.batch * decode.heads * decode.capacity * decode.headSize },
  },
];
