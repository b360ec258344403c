import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { flagsOfOptions, type RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadModelBlocks } from '../src/parts/models/load-model-blocks.js';
import { readLoadedFlags } from '../src/saved/read-loaded-flags.js';
import { processTestMs } from './support/run-processes.js';
import { listNumbers, TrainingRuns, tolerances } from './support/training-runs.js';

const blocks = fileURLToPath(new URL('./support/own-blocks.mjs', import.meta.url));
const tensor: RunOptions = { layout: { tensorModelParallelSize: 2, sequenceParallel: true } };
const stages: RunOptions = { layout: { pipelineModelParallelSize: 2 } };
/**
 * Number of ranks and the layouts. The second layout continues from a checkpoint of one rank; in whole runs,
 * both use four ranks.
 */
const [numRanks, layouts] =
  inWholeRuns('four').length === 0
    ? ([2, [tensor, stages]] as const)
    : ([
        4,
        [tensor, { layout: { tensorModelParallelSize: 2 } }].map((own) => mergeOptions(own, stages)),
      ] as const);

describe('a model with blocks of its own', () => {
  let runs: TrainingRuns;
  beforeAll(async () => {
    runs = await TrainingRuns.create({ training: { trainIterations: 8 }, model: { numLayers: 4 } });
    await runs.run(1, [
      { name: 'standard', options: { training: { exitInterval: 2 } } },
      { name: 'own', options: { model: { modelBlocks: blocks } } },
      { name: 'half', options: { model: { modelBlocks: blocks }, training: { exitInterval: 4 } } },
    ]);
    const own: RunOptions = { model: { modelBlocks: blocks } };
    await runs.run(numRanks, [
      { name: 'several', options: mergeOptions(own, layouts[0]!) },
      {
        name: 'resumed',
        options: mergeOptions(own, layouts[1]!, { checkpoint: { load: runs.locate('half') } }),
      },
    ]);
  }, processTestMs);
  afterAll(() => runs.remove());

  it('trains, otherwise than the one of its flags', () => {
    const [own, standard] = [listNumbers(runs.readMetrics('own')), listNumbers(runs.readMetrics('standard'))];
    expect(own).toHaveLength(8);
    expect(own.at(-1)![0]).toBeLessThan(own[0]![0]!);
    expect(own[1]).not.toEqual(standard[1]);
  });

  it('has the curve of one process on several ranks, and through a resume', () => {
    const { loss, norm } = runs.differences('several', 'own');
    expect(loss).toBeLessThan(tolerances.fp32.loss);
    expect(norm).toBeLessThan(tolerances.fp32.norm);
    const expected = listNumbers(runs.readMetrics('own')).slice(4);
    listNumbers(runs.readMetrics('resumed')).forEach(([resumed], index) => {
      expect(Math.abs(resumed! / expected[index]![0]! - 1)).toBeLessThan(tolerances.fp32.loss);
    });
  });

  it('runs no module that only a checkpoint names', async () => {
    const flags = flagsOfOptions({ checkpoint: { load: runs.locate('own') } });
    await loadModelBlocks(flags);
    await expect(readLoadedFlags(flags)).rejects.toMatchObject({
      code: 'MTL_BLOCK_KIND',
      remedy: expect.stringContaining(`pass --model-blocks ${blocks}`),
    });
  });

  it.each([
    ['export default 3;', 'its default export is no function'],
    ['throw new Error("not today");', 'not today'],
    ['export default (', 'own.mjs'],
    [undefined, 'Cannot find module'],
  ])('refuses the module %j', async (text, why) => {
    const path = runs.locate(`module ${why.length} of ones own.mjs`);
    if (text !== undefined) writeFileSync(path, text);
    const flags = flagsOfOptions({ model: { modelBlocks: path } });
    await expect(loadModelBlocks(flags)).rejects.toMatchObject({
      code: 'MTL_MODEL_BLOCKS',
      exitCode: 2,
      message: expect.stringContaining(why),
    });
  });
});
