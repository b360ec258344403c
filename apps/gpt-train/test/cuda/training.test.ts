import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findGpu, openCuda } from '@mtl/kernels';
import { prepareCorpus } from '@mtl/recipes/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bounds, fixture, lossDistance, normDistance, train } from '../parity-training.js';
import { readMetrics, runGptTrain } from '../run-gpt-train.js';

const { title, problem, isEmulated } = findGpu();
// A step takes seconds where every thread of a kernel is a fiber. The first has a learning rate of 0: the third sees an update.
const steps = isEmulated ? 3 : 100;

/** The first steps of a curve. */
const begin = ({ losses, gradientNorms }: typeof fixture.float32) => ({
  losses: losses.slice(0, steps),
  gradientNorms: gradientNorms.slice(0, steps),
});

describe.skipIf(problem !== undefined)(`${steps} steps on device cuda (${title})`, () => {
  beforeAll(() => void openCuda());

  it('float32: losses and gradient norms are those of PyTorch', async () => {
    const curve = await train({ dtype: 'float32', device: 'cuda', steps });
    expect(curve.losses.length).toBe(steps);
    expect(lossDistance(curve, begin(fixture.float32))).toBeLessThan(bounds.loss);
    expect(normDistance(curve, begin(fixture.float32))).toBeLessThan(bounds.norm);
  }, 600_000);

  it('bfloat16: losses are those of PyTorch', async () => {
    const curve = await train({ dtype: 'bfloat16', device: 'cuda', steps });
    expect(lossDistance(curve, begin(fixture.bfloat16))).toBeLessThan(bounds.bfloat16Loss);
  }, 600_000);

  it('float32 with dropout: the masks, and so the losses, are those of device cpu', async () => {
    const options = { dtype: 'float32', dropout: 0.1, steps } as const;
    const [onCard, onHost] = [await train({ ...options, device: 'cuda' }), await train(options)];
    expect(lossDistance(onCard, onHost)).toBeLessThan(bounds.loss);
    // what another mask does: dropout by itself moves the losses further than that
    expect(lossDistance(onHost, begin(fixture.float32))).toBeGreaterThan(10 * bounds.loss);
  }, 600_000);

  it('bfloat16: the same run twice gives the same bits', async () => {
    const options = { dtype: 'bfloat16', device: 'cuda', dropout: 0.1, steps } as const;
    expect(await train(options)).toEqual(await train(options));
  }, 600_000);
});

describe.skipIf(problem !== undefined)('checkpoints move between device cuda and cpu', () => {
  let directory: string;
  let flags: string[];

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-cuda-checkpoints-'));
    flags = [
      ...(await prepareCorpus(directory)),
      ...['--preset', 'none', '--num-layers', '1', '--hidden-size', '16', '--num-attention-heads', '2'],
      ...['--seq-length', '16', '--max-position-embeddings', '16', '--micro-batch-size', '2'],
      ...['--global-batch-size', '2', '--lr', '1e-3', '--lr-decay-iters', '4', '--split', '90,10,0'],
      ...['--eval-iters', '0', '--eval-interval', '100', '--log-interval', '1', '--threads', '1'],
    ];
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  /** Losses of the steps of a run; `until` is the last. */
  async function losses(
    run: string,
    { device, until, load }: { device: string; until: number; load?: string },
  ) {
    const metrics = join(directory, `${run}.jsonl`);
    const more = ['--device', device, '--train-iters', String(until), '--save', join(directory, run)];
    const from = load === undefined ? [] : ['--load', join(directory, load)];
    const result = await runGptTrain({
      flags: [...flags, ...more, ...from, '--metrics-jsonl', metrics],
      directory,
    });
    expect(result.output).not.toContain('error[');
    expect(result.code).toBe(0);
    return readMetrics(metrics).map(({ lm_loss }) => lm_loss!);
  }

  it.each([
    ['cuda', 'cpu'],
    ['cpu', 'cuda'],
  ])('from %s to %s', async (first, second) => {
    const whole = await losses(`whole-${first}`, { device: first, until: 4 });
    await losses(`first-${first}`, { device: first, until: 2 });
    const rest = await losses(`second-${first}`, { device: second, until: 4, load: `first-${first}` });
    expect(rest.length).toBe(2);
    rest.forEach((loss, index) => {
      expect(Math.abs(loss - whole[index + 2]!)).toBeLessThan(bounds.loss);
    });
  });
});
