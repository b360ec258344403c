import { Parameter } from '@mtl/autograd';
import { numLiveTensors, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AdamwOptimizerOptions } from './adamw.js';
import { AdamwOptimizer, ReplicatedStore } from './index.js';

const options: AdamwOptimizerOptions = {
  beta1: 0.9,
  beta2: 0.95,
  epsilon: 1e-8,
  weightDecay: 0.1,
  clipGrad: 1,
};
const normal = { kind: 'normal', standardDeviation: 1 } as const;

let before: number;
beforeEach(() => {
  before = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(before));

function takeValues(view: Tensor): number[] {
  using values = view;
  return values.toArray();
}

function build(dtype: 'float32' | 'bfloat16', changes: Partial<AdamwOptimizerOptions> = {}) {
  const weight = new Parameter({ name: 'weight', globalShape: [3, 5], initialization: normal });
  const bias = new Parameter({ name: 'bias', globalShape: [70], initialization: normal });
  const store = new ReplicatedStore([weight, bias], { device: 'cpu', dtype });
  store.initialize(4);
  const optimizer = new AdamwOptimizer([store], { ...options, ...changes });
  const dispose = (): void => optimizer.dispose();
  const all = store.owned[0]!;
  const masters = (): number[][] => store.ranges.map((range) => takeValues(store.master(range)));
  const gradients = (): number[] => takeValues(store.gradient(all));
  return { weight, bias, store, all, optimizer, masters, gradients, dispose };
}

const gradientAt = (step: number, index: number): number => Math.fround(Math.sin(step * 31 + index));

describe('ReplicatedStore', () => {
  it('makes parameters views of flat buffers, aligned, in float32 without a second copy', () => {
    const { weight, bias, store, all, gradients, dispose } = build('float32');
    expect(store.ranges.map(({ start, end }) => [start, end])).toEqual([
      [0, 15],
      [64, 134],
    ]);
    weight.data.write(new Float32Array(15).fill(7));
    expect(takeValues(store.master(all)).slice(0, 16)).toEqual([...new Array<number>(15).fill(7), 0]);
    bias.mainGradient.write(new Float32Array(70).fill(2));
    expect(gradients().slice(63, 66)).toEqual([0, 2, 2]);
    dispose();
  });

  it('rounds the model from float32 masters', () => {
    const { weight, store, masters, dispose } = build('bfloat16');
    expect(weight.data.dtype).toBe('bfloat16');
    weight.data.toArray().forEach((value, index) => {
      expect(Math.abs(value - masters()[0]![index]!)).toBeLessThanOrEqual(2 ** -8 * Math.abs(value));
    });
    expect(store.dtype).toBe('bfloat16');
    dispose();
  });
});

describe('AdamwOptimizer', () => {
  it("has PyTorch's defaults", () => {
    const ofPytorch = { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0.01, clipGrad: 0 };
    const trained = [undefined, ofPytorch, options].map((given) => {
      const weight = new Parameter({ name: 'weight', globalShape: [3, 5], initialization: normal });
      const store = new ReplicatedStore([weight], { device: 'cpu', dtype: 'float32' });
      store.initialize(4);
      using optimizer = new AdamwOptimizer([store], given);
      for (let step = 1; step <= 3; step++) {
        weight.mainGradient.write(Float32Array.from({ length: 15 }, (_, index) => gradientAt(step, index)));
        optimizer.step({ learningRate: 0.1 });
      }
      return [...weight.data.read<'float32'>()];
    });
    expect(trained[0]).toEqual(trained[1]);
    expect(trained[0]).not.toEqual(trained[2]);
  });

  it('takes another weight decay between steps', () => {
    const [changed, made] = [build('float32'), build('float32', { weightDecay: 0.5 })];
    changed.optimizer.weightDecay = 0.5;
    for (const { optimizer } of [changed, made]) optimizer.step({ learningRate: 0.1 });
    expect(changed.masters()).toEqual(made.masters());
    for (const { dispose } of [changed, made]) dispose();
  });

  it('does what AdamW says, decay on matrices only, clipping by the norm of all gradients', () => {
    const { weight, bias, optimizer, masters, dispose } = build('float32');
    const expected = masters();
    const moments = expected.map((values) => values.map(() => [0, 0] as [number, number]));
    for (let step = 1; step <= 5; step++) {
      const gradients = expected.map((values, which) =>
        values.map((_, index) => gradientAt(step, which * 100 + index)),
      );
      weight.mainGradient.write(Float32Array.from(gradients[0]!));
      bias.mainGradient.write(Float32Array.from(gradients[1]!));
      const norm = Math.hypot(...gradients.flat());
      const result = optimizer.step({ learningRate: 0.01 });
      expect(Math.abs(result.gradientNorm / norm - 1)).toBeLessThan(1e-6);
      const factor = Math.min(1, 1 / (norm + 1e-6));
      expected.forEach((values, which) => {
        values.forEach((value, index) => {
          const gradient = gradients[which]![index]! * factor;
          const moment = moments[which]![index]!;
          moment[0] = 0.9 * moment[0] + 0.1 * gradient;
          moment[1] = 0.95 * moment[1] + 0.05 * gradient * gradient;
          const update = moment[0] / (1 - 0.9 ** step) / (Math.sqrt(moment[1] / (1 - 0.95 ** step)) + 1e-8);
          values[index] = value * (which === 0 ? 1 - 0.01 * 0.1 : 1) - 0.01 * update;
        });
      });
    }
    // float32 state over five steps
    masters()
      .flat()
      .forEach((value, index) => {
        expect(Math.abs(value - expected.flat()[index]!)).toBeLessThan(3e-6);
      });
    expect(optimizer.numSteps).toBe(5);
    dispose();
  });

  it('clears gradients, undoes the loss scale, and leaves everything alone when a gradient overflowed', () => {
    const [scaled, plain] = [build('bfloat16'), build('bfloat16')];
    for (const { weight } of [scaled, plain]) weight.mainGradient.write(new Float32Array(15).fill(0.5));
    scaled.weight.mainGradient.write(new Float32Array(15).fill(0.5 * 1024));
    const one = scaled.optimizer.step({ learningRate: 0.01, lossScale: 1024 });
    const two = plain.optimizer.step({ learningRate: 0.01 });
    expect(one.gradientNorm).toBeCloseTo(two.gradientNorm, 6);
    expect(scaled.masters()).toEqual(plain.masters());
    expect(scaled.gradients().every((value) => value === 0)).toBe(true);
    const kept = scaled.masters();
    scaled.weight.mainGradient.write(new Float32Array(15).fill(Number.POSITIVE_INFINITY));
    expect(scaled.optimizer.step({ learningRate: 0.01 })).toEqual({
      gradientNorm: Number.POSITIVE_INFINITY,
      skipped: true,
    });
    expect(scaled.masters()).toEqual(kept);
    expect(scaled.optimizer.numSteps).toBe(1);
    expect(scaled.gradients().every((value) => value === 0)).toBe(true);
    for (const built of [scaled, plain]) built.dispose();
  });

  it('launched and finished is the step, bit for bit, an overflow included', () => {
    const [whole, halves] = [build('bfloat16'), build('bfloat16')];
    const gradientNorm = Tensor.zeros({ shape: [1], dtype: 'float64' });
    for (const [step, scale] of [1, Number.POSITIVE_INFINITY, 1].entries()) {
      for (const { weight, bias } of [whole, halves]) {
        weight.mainGradient.write(Float32Array.from({ length: 15 }, (_, i) => scale * gradientAt(step, i)));
        bias.mainGradient.write(Float32Array.from({ length: 70 }, (_, i) => gradientAt(step, 100 + i)));
      }
      const expected = whole.optimizer.step({ learningRate: 0.01 });
      halves.optimizer.launchStep({ learningRate: 0.01, gradientNorm });
      expect(halves.optimizer.finishStep(gradientNorm.item())).toEqual(expected);
      expect(expected.skipped).toBe(scale !== 1);
      expect(halves.masters()).toEqual(whole.masters());
      expect(halves.weight.data.toArray()).toEqual(whole.weight.data.toArray());
      expect(halves.optimizer.numSteps).toBe(whole.optimizer.numSteps);
    }
    expect(whole.optimizer.numSteps).toBe(2);
    gradientNorm.dispose();
    for (const built of [whole, halves]) built.dispose();
  });

  it('launched while the step before is taken for an update is the step, bit for bit', () => {
    const [whole, late] = [build('bfloat16'), build('bfloat16')];
    const norms = [0, 1, 2, 3].map(() => Tensor.zeros({ shape: [1], dtype: 'float64' }));
    const expected = norms.map((gradientNorm, step) => {
      for (const { weight } of [whole, late])
        weight.mainGradient.write(Float32Array.from({ length: 15 }, (_, i) => gradientAt(step, i)));
      const result = whole.optimizer.step({ learningRate: 0.01 });
      late.optimizer.launchStep({ learningRate: 0.01, gradientNorm });
      late.optimizer.assumeUpdate();
      expect(late.optimizer.numSteps).toBe(step + 1);
      // the norm of each step becomes known one step later
      if (step > 0) late.optimizer.finishStep(norms[step - 1]!.item());
      expect(late.optimizer.numSteps).toBe(step + 1);
      return result;
    });
    expect(late.optimizer.finishStep(norms[3]!.item())).toEqual(expected[3]);
    expect(late.masters()).toEqual(whole.masters());
    expect(late.optimizer.numSteps).toBe(4);
    for (const each of [...norms, whole, late]) each.dispose();
  });

  it('that was taken for an update and was none does not count once it is finished', () => {
    const { optimizer, weight, masters, dispose } = build('float32');
    const gradientNorm = Tensor.zeros({ shape: [1], dtype: 'float64' });
    const kept = masters();
    weight.mainGradient.write(new Float32Array(15).fill(Number.NaN));
    optimizer.launchStep({ learningRate: 0.01, gradientNorm });
    optimizer.assumeUpdate();
    expect(optimizer.finishStep(gradientNorm.item()).skipped).toBe(true);
    expect(optimizer.numSteps).toBe(0);
    expect(masters()).toEqual(kept);
    gradientNorm.dispose();
    dispose();
  });

  it('refuses a step before the last one is finished, and changes nothing', () => {
    const { optimizer, masters, weight, dispose } = build('float32');
    const gradientNorm = Tensor.zeros({ shape: [1], dtype: 'float64' });
    const launch = (): void => optimizer.launchStep({ learningRate: 0.01, gradientNorm });
    weight.mainGradient.write(new Float32Array(15).fill(0.5));
    launch();
    const launched = masters();
    weight.mainGradient.write(new Float32Array(15).fill(0.5));
    expect(launch).toThrow(expect.objectContaining({ code: 'MTL_OPTIMIZER_STEP' }) as Error);
    expect(masters()).toEqual(launched);
    optimizer.finishStep(gradientNorm.item());
    expect(launch).not.toThrow();
    gradientNorm.dispose();
    dispose();
  });
});
