import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseFlags, validateConfiguration } from '@mtl/configuration';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dryRun, loadModelBlocks, readLoadedFlags } from '../src/index.js';
import { processTestMs } from './support/run-processes.js';
import { numbersOf, TrainingRuns, tolerances } from './support/training-runs.js';

const blocks = fileURLToPath(new URL('./support/own-blocks.mjs', import.meta.url));
const four = ['--tensor-model-parallel-size', '2', '--pipeline-model-parallel-size', '2'];

describe('a model with blocks of its own', () => {
  let runs: TrainingRuns;
  beforeAll(async () => {
    runs = await TrainingRuns.create(['--train-iters', '8', '--num-layers', '4']);
    await runs.run(1, [
      { name: 'standard' },
      { name: 'own', flags: ['--model-blocks', blocks] },
      { name: 'half', flags: ['--model-blocks', blocks, '--exit-interval', '4'] },
    ]);
    await runs.run(4, [
      { name: 'four', flags: ['--model-blocks', blocks, ...four, '--sequence-parallel'] },
      { name: 'resumed', flags: ['--model-blocks', blocks, ...four, '--load', runs.pathOf('half')] },
    ]);
  }, processTestMs);
  afterAll(() => runs.remove());

  it('trains, otherwise than the one of its flags', () => {
    const [own, standard] = [numbersOf(runs.metricsOf('own')), numbersOf(runs.metricsOf('standard'))];
    expect(own).toHaveLength(8);
    expect(own.at(-1)![0]).toBeLessThan(own[0]![0]!);
    expect(own[1]).not.toEqual(standard[1]);
  });

  it('has the curve of one process on four ranks, and through a resume', () => {
    const { loss, norm } = runs.differences('four', 'own');
    expect(loss).toBeLessThan(tolerances.fp32.loss);
    expect(norm).toBeLessThan(tolerances.fp32.norm);
    const expected = numbersOf(runs.metricsOf('own')).slice(4);
    numbersOf(runs.metricsOf('resumed')).forEach(([resumed], index) => {
      expect(Math.abs(resumed! / expected[index]![0]! - 1)).toBeLessThan(tolerances.fp32.loss);
    });
  });

  it('runs no module that only a checkpoint names', async () => {
    const parsed = parseFlags(['--load', runs.pathOf('own')]);
    await loadModelBlocks(parsed);
    await expect(readLoadedFlags(parsed)).rejects.toMatchObject({
      code: 'MTL_BLOCK_KIND',
      remedy: expect.stringContaining(`pass --model-blocks ${blocks}`),
    });
  });

  it('is counted by a dry run', async () => {
    const parametersOf = async (more: readonly string[]): Promise<number> => {
      const line =
        '--preset none --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 ' +
        '--micro-batch-size 1 --lr 1e-3 --train-iters 2 --data-path bundled';
      const flags = parseFlags([...line.split(' '), ...more]);
      await loadModelBlocks(flags);
      const { ranks } = await dryRun(validateConfiguration(flags));
      return ranks[0]!.numParameters;
    };
    // of each of two layers: a matrix before and after 128 features more, without the biases of both layers
    const more = 2 * (2 * 32 * 128 - 128 - 32);
    expect(await parametersOf(['--model-blocks', blocks])).toBe((await parametersOf([])) + more);
  });

  it.each([
    ['export default 3;', 'its default export is no function'],
    ['throw new Error("not today");', 'not today'],
    ['export default (', 'own.mjs'],
    [undefined, 'Cannot find module'],
  ])('refuses the module %j', async (text, why) => {
    const path = runs.pathOf(`module ${why.length} of ones own.mjs`);
    if (text !== undefined) writeFileSync(path, text);
    const flags = parseFlags(['--model-blocks', path]);
    await expect(loadModelBlocks(flags)).rejects.toMatchObject({
      code: 'MTL_MODEL_BLOCKS',
      exitCode: 2,
      message: expect.stringContaining(why),
    });
  });
});
