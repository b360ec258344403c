import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findGpu } from '@mtl/kernels';
import { prepareCorpus } from '@mtl/recipes/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bounds } from '../parity-training.js';
import { readMetrics } from '../run-gpt-train.js';
import { runRanks } from '../run-ranks.js';

const { title, problem, isEmulated } = findGpu();
const numSteps = 2;
const timed = ['--time-matmuls'];

interface RunOptions {
  readonly flags?: readonly string[];
}

describe.skipIf(problem !== undefined)(`gpt-train --time-matmuls (${title})`, () => {
  let directory: string;
  let recipe: string[];

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-time-matmuls-'));
    recipe = [
      ...(await prepareCorpus(directory)),
      ...['--device', 'cuda', '--preset', 'none', '--num-layers', '2', '--hidden-size', '32'],
      ...['--num-attention-heads', '2', '--seq-length', '16', '--max-position-embeddings', '16'],
      ...['--micro-batch-size', '1', '--global-batch-size', '2', '--train-iters', String(numSteps)],
      ...['--lr', '1e-3', '--lr-decay-style', 'constant', '--eval-iters', '0', '--log-interval', '1'],
      ...['--threads', '1', '--split', '100,0,0'],
    ];
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  async function train(run: string, options: RunOptions = {}) {
    const { flags = [] } = options;
    const metrics = join(directory, `${run}.jsonl`);
    const { code, output } = await runRanks({
      numProcesses: 1,
      flags: [...recipe, ...flags, '--save', join(directory, run), '--metrics-jsonl', metrics],
      directory,
      variables: {
        XDG_CACHE_HOME: join(directory, 'cache'),
        // of the emulation: the second of three candidates is the fastest, and sums in another order
        MTL_EMULATION_MATMUL_MS: '3,1,2',
      },
    });
    expect(code, output).toBe(0);
    const steps = readMetrics(metrics);
    return {
      output,
      peaks: steps.map(({ peak_bytes }) => peak_bytes),
      numbers: steps.map(({ lm_loss, grad_norm }) => [lm_loss, grad_norm]),
    };
  }

  it('chooses once, and every later run has the same bits and the memory of a run without it', async () => {
    const plain = await train('plain');
    const first = await train('first', { flags: timed });
    expect(first.output).toMatch(/algorithms of matmuls: \d+ chosen by time, kept in/);
    const second = await train('second', { flags: timed });
    expect(second.output).toContain('algorithms of matmuls: as chosen before');
    expect(second.numbers).toEqual(first.numbers);
    expect(first.peaks).toEqual(plain.peaks);
    expect(second.peaks).toEqual(plain.peaks);
    first.numbers.forEach(([loss], step) => {
      expect(Math.abs(loss! / plain.numbers[step]![0]! - 1)).toBeLessThan(bounds.loss);
    });
    // on a GPU the first candidates may be the fastest
    if (isEmulated) expect(first.numbers).not.toEqual(plain.numbers);
    // graphs are recorded afterwards, with the same algorithms
    const graphed = await train('graphed', { flags: [...timed, '--cuda-graphs'] });
    expect(graphed.numbers).toEqual(first.numbers);
  });
});
