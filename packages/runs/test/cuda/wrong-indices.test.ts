import { findGpu, openCuda } from '@mtl/kernels/internal';
import type { StageBatch } from '@mtl/models';
import { describe, expect, it } from 'vitest';
import { tinyGpt } from './tiny-models.js';
import { type TinyTrainingOptions, tinyTraining } from './tiny-training.js';

const { problem, title } = findGpu();

/** Puts a wrong value into one micro-batch, and another at a position whose loss does not count. */
function withWrong(what: 'tokens' | 'labels' | 'positionIds', value: number) {
  return {
    ...tinyGpt,
    makeBatch: (number: number, length: number): StageBatch => {
      const batch = tinyGpt.makeBatch(number, length);
      if (number !== 5) return batch;
      const values = Int32Array.from(batch[what]!);
      values[3] = value;
      const labels = Int32Array.from(what === 'labels' ? values : batch.labels!);
      labels[batch.lossMask!.indexOf(0)] = -100;
      return { ...batch, labels, [what]: what === 'labels' ? labels : values };
    },
  };
}

interface Wrong {
  readonly what: 'tokens' | 'labels' | 'positionIds';
  readonly value: number;
  readonly message: RegExp;
}

const wrong: readonly Wrong[] = [
  // 50 is a row of the padded table, but not a token
  {
    what: 'tokens',
    value: 50,
    message: /^iteration 3: embedding_forward: ids\[\d+\] is 50, expected 0 to 49$/,
  },
  { what: 'positionIds', value: 16, message: /: embedding_forward: ids\[\d+\] is 16, expected 0 to 15$/ },
  {
    what: 'labels',
    value: -100,
    message: /^iteration 3: cross_entropy_\w+: labels\[\d+\] is -100, expected 0 to 49$/,
  },
];

/** Trains two micro-batches a step; the sixth has a wrong index. Returns the parameters after the failure. */
async function parametersAfter(
  options: Pick<TinyTrainingOptions<StageBatch, never>, 'onGraphMessage' | 'waitsAfter'> & {
    readonly device: 'cpu' | 'cuda';
    readonly of: Wrong;
  },
): Promise<readonly number[][]> {
  const { device, of, onGraphMessage, waitsAfter } = options;
  const { what, value, message } = of;
  let parameters: number[][] = [];
  const training = tinyTraining({
    model: withWrong(what, value),
    device,
    numMicroBatches: 2,
    onGraphMessage,
    ...(waitsAfter === undefined ? {} : { waitsAfter }),
    onError: (trained) => {
      parameters = trained.map(({ data }) => data.toArray());
    },
  });
  await expect(training).rejects.toMatchObject({
    code: 'MTL_INDEX',
    message: expect.stringMatching(message),
  });
  return parameters;
}

describe('a training run with an index out of range', () => {
  it.each(wrong)('on the CPU fails at the step with $what $value', async (of) => {
    await parametersAfter({ device: 'cpu', of });
  });
});

describe.skipIf(problem !== undefined)(
  `a training run with an index out of range on device cuda (${title})`,
  () => {
    it.each(wrong)('fails at the step with $what $value, which leaves all parameters numbers', async (of) => {
      openCuda();
      const [step, graphed] = [
        await parametersAfter({ device: 'cuda', of }),
        await parametersAfter({ device: 'cuda', of, onGraphMessage: () => {} }),
      ];
      expect(step.flat().every(Number.isFinite)).toBe(true);
      expect(graphed).toEqual(step);
      // with late metrics, the next step was already running, and its update is finished
      const late = await parametersAfter({ device: 'cuda', of, waitsAfter: () => false });
      expect(late.flat().every(Number.isFinite)).toBe(true);
      expect(late).not.toEqual(step);
    });
  },
);
