import { findGpu, openCuda } from '@mtl/kernels/internal';
import { beforeAll, describe, expect, it } from 'vitest';
import { bounds, fixture, lossDistance, normDistance, train } from '../parity-training.js';

const { title, problem, isEmulated } = findGpu();
// Number of steps. Under emulation a step takes seconds. The first step has a learning rate of 0, so the
// third step is the first with changed weights.
const steps = isEmulated ? 3 : 100;

/** The first steps of a curve. */
const begin = ({ losses, gradientNorms }: typeof fixture.float32) => ({
  losses: losses.slice(0, steps),
  gradientNorms: gradientNorms.slice(0, steps),
});

describe.skipIf(problem !== undefined)(`${steps} steps on device cuda (${title})`, () => {
  beforeAll(() => void openCuda());

  it('float32: losses and gradient norms equal PyTorch’s', async () => {
    const curve = await train({ dtype: 'float32', device: 'cuda', steps });
    expect(curve.losses.length).toBe(steps);
    expect(lossDistance(curve, begin(fixture.float32))).toBeLessThan(bounds.loss);
    expect(normDistance(curve, begin(fixture.float32))).toBeLessThan(bounds.norm);
  }, 600_000);

  it('bfloat16: losses equal PyTorch’s', async () => {
    const curve = await train({ dtype: 'bfloat16', device: 'cuda', steps });
    expect(lossDistance(curve, begin(fixture.bfloat16))).toBeLessThan(bounds.bfloat16Loss);
  }, 600_000);

  it('float32 with dropout: the masks, and so the losses, equal the ones on device cpu', async () => {
    const options = { dtype: 'float32', dropout: 0.1, steps } as const;
    const [onCard, onHost] = [await train({ ...options, device: 'cuda' }), await train(options)];
    expect(lossDistance(onCard, onHost)).toBeLessThan(bounds.loss);
    // other masks change the losses more: dropout alone moves them by over 10 times the bound
    expect(lossDistance(onHost, begin(fixture.float32))).toBeGreaterThan(10 * bounds.loss);
  }, 600_000);

  it('bfloat16: the same run twice gives the same bits', async () => {
    const options = { dtype: 'bfloat16', device: 'cuda', dropout: 0.1, steps } as const;
    expect(await train(options)).toEqual(await train(options));
  }, 600_000);
});
