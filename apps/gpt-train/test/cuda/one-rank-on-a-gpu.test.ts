import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findGpu } from '@mtl/kernels/internal';
import { prepareCorpus } from '@mtl/runs/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bounds } from '../parity-training.js';
import { readMetrics, runGptTrain } from '../run-gpt-train.js';

const { title, problem, isEmulated } = findGpu();
const numSteps = 4;
const launchedAsGraphs = 'passes over micro-batches are launched as graphs';

interface RunOptions {
  readonly device: 'cpu' | 'cuda';
  /** Number of the last step. */
  readonly until?: number;
  /** Folder of the run to continue. */
  readonly load?: string;
  readonly flags?: readonly string[];
}

// small enough for emulation, where every thread of a kernel is a fiber
describe.skipIf(problem !== undefined)(`gpt-train alone on one GPU (${title})`, () => {
  let directory: string;
  let recipe: string[];

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-cuda-alone-'));
    recipe = [
      ...(await prepareCorpus(directory)),
      ...['--preset', 'none', '--num-layers', '1', '--hidden-size', '16', '--num-attention-heads', '2'],
      ...['--seq-length', '16', '--max-position-embeddings', '16', '--micro-batch-size', '2'],
      ...['--lr', '1e-3', '--lr-decay-iters', String(numSteps), '--split', '90,10,0'],
      ...['--eval-iters', '0', '--eval-interval', '100', '--log-interval', '1', '--threads', '1'],
    ];
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  async function train(run: string, { device, until = numSteps, load, flags = [] }: RunOptions) {
    const metrics = join(directory, `${run}.jsonl`);
    const more = ['--device', device, '--train-iters', String(until), '--save', join(directory, run)];
    const from = load === undefined ? [] : ['--load', join(directory, load)];
    const { code, output } = await runGptTrain({
      flags: [...recipe, ...more, ...from, ...flags, '--metrics-jsonl', metrics],
      directory,
    });
    expect(output).not.toContain('error[');
    expect(code).toBe(0);
    return { output, steps: readMetrics(metrics) };
  }

  it.each([
    ['cuda', 'cpu'],
    ['cpu', 'cuda'],
  ] as const)('saves what the other device goes on from: %s to %s', async (first, second) => {
    const flags = ['--global-batch-size', '2'];
    const { steps: whole } = await train(`whole-${first}`, { device: first, flags });
    await train(`first-${first}`, { device: first, until: 2, flags });
    const { steps: rest } = await train(`second-${first}`, { device: second, load: `first-${first}`, flags });
    expect(rest.map(({ iteration }) => iteration)).toEqual([3, 4]);
    rest.forEach(({ lm_loss }, index) => {
      expect(Math.abs(lm_loss! - whole[index + 2]!.lm_loss!)).toBeLessThan(bounds.loss);
    });
  });

  it('takes TF32 when asked, and not otherwise', async () => {
    const flags = ['--global-batch-size', '2'];
    const { steps: exact } = await train('float32', { device: 'cuda', flags });
    const { steps: onHost } = await train('float32-host', { device: 'cpu', flags });
    const { steps: rounded } = await train('tf32', { device: 'cuda', flags: [...flags, '--allow-tf32'] });
    const distances = (steps: typeof exact) =>
      steps.map(({ lm_loss }, step) => Math.abs(lm_loss! / onHost[step]!.lm_loss! - 1));
    expect(Math.max(...distances(exact))).toBeLessThan(bounds.loss);
    // TF32 has 10 bits of mantissa: at most the difference that is allowed for bfloat16, which has 8
    expect(Math.max(...distances(rounded))).toBeLessThan(bounds.bfloat16Loss);
    // the flag has an effect; on a GPU this cannot be tested, since its library may compute such small
    // matmuls without TF32 anyway: packages/kernels/test/cuda/tf32.test.ts tests larger ones
    const losses = (steps: typeof exact) => steps.map(({ lm_loss }) => lm_loss);
    if (isEmulated) expect(losses(rounded)).not.toEqual(losses(exact));
  });

  it('launches passes as graphs with the same losses and norms to the bit', async () => {
    // masks and data differ from micro-batch to micro-batch: a recorded pass must not repeat old ones
    const dropout = ['--attention-dropout', '0.1', '--hidden-dropout', '0.1'];
    const flags = ['--bf16', '--global-batch-size', '6', ...dropout];
    const plain = await train('plain', { device: 'cuda', flags });
    const graphed = await train('graphed', { device: 'cuda', flags: [...flags, '--cuda-graphs'] });
    expect(plain.output).not.toContain(launchedAsGraphs);
    expect(graphed.output).toContain(launchedAsGraphs);
    const numbers = ({ steps }: typeof plain) => steps.map(({ lm_loss, grad_norm }) => [lm_loss, grad_norm]);
    expect(numbers(graphed)).toEqual(numbers(plain));
    expect(new Set(numbers(graphed).map(([loss]) => loss)).size).toBe(numSteps);
  });
});
