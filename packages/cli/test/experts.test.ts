import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runMtlIn } from './support/run-mtl-in.js';
import { spawnMtl } from './support/spawn-mtl.js';
import { temporaryDirectory } from './support/temporary-directory.js';
import { trainTinyGpt } from './support/train-tiny-gpt.js';

describe('a model with experts', () => {
  const directory = temporaryDirectory();
  const cwd = directory.path;
  let printed: string;

  beforeAll(async () => {
    const experts = {
      disableBiasLinear: true,
      swiglu: true,
      numExperts: 4,
      moeRouterTopk: 2,
      moeFfnHiddenSize: 48,
    };
    ({ printed } = await trainTinyGpt(cwd, experts));
  }, 120_000);
  afterAll(() => directory.dispose());

  /** Returns the JSON that `mtl eval` prints, of one process or of several. */
  async function evaluate(words: readonly string[], numProcesses = 1) {
    const own = ['eval', '--json', '--load', 'run', '--threads', '1', '--max-tokens', '400', ...words];
    const argv =
      numProcesses === 1 ? own : ['run', '--nproc-per-node', `${numProcesses}`, 'mtl', '--', ...own];
    const { status, stdout, stderr } = await (numProcesses === 1 ? runMtlIn : spawnMtl)(argv, { cwd });
    expect(status, stderr).toBe(0);
    const report = stdout.split('\n').find((line) => line.includes('"numScored"'))!;
    return (JSON.parse(report.slice(report.indexOf('{'))) as { total: { numScored: number; loss: number } })
      .total;
  }

  it('is described by what it has and what a token uses', () => {
    expect(printed).toMatch(/GPT of [\d,]+ parameters, [\d,]+ of them active in fp32/);
  });

  it('is evaluated by processes that have half of the experts each', async () => {
    const alone = await evaluate([]);
    const spread = await evaluate(
      ['--tensor-model-parallel-size', '2', '--expert-model-parallel-size', '2'],
      2,
    );
    expect(spread.numScored).toBe(alone.numScored);
    // float32 rounding of partial sums
    expect(Math.abs(spread.loss / alone.loss - 1)).toBeLessThan(1e-6);
  }, 60_000);

  it('refuses experts that are divided further than layers', async () => {
    const { status, stderr } = await runMtlIn(
      ['eval', '--load', 'run', '--tensor-model-parallel-size', '4', '--expert-model-parallel-size', '3'],
      { cwd },
    );
    expect(status).toBe(2);
    expect(stderr).toMatch(/MTL_EXPERT_PARALLEL_SIZE.*3 does not divide --tensor-model-parallel-size 4/);
  });
});
