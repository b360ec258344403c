import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { contentOfCheckpoint } from './support/content-of-checkpoint.js';
import { processTestMs } from './support/run-processes.js';
import { listNumbers, TrainingRuns, tolerances } from './support/training-runs.js';
import { takenFromDirectory, writeTinyLlama } from './support/write-tiny-llama.js';

describe('a model that is trained on twice as long sequences as before, with yarn', () => {
  let runs: TrainingRuns;
  beforeAll(async () => {
    runs = await TrainingRuns.create({
      data: { sequenceLength: 64 },
      training: { trainIterations: 4, globalBatchSize: 2, evalIterations: 0 },
      optimizer: { maxLearningRate: 1e-3, learningRateDecayIterations: 4 },
    });
    const original = runs.locate('original');
    await writeTinyLlama({ directory: original });
    const longer: RunOptions = {
      checkpoint: { loadHuggingFace: original },
      model: { maxPositionEmbeddings: 64 },
    };
    const yarn: RunOptions = {
      model: { positionEmbeddingType: 'yarn', rotaryScalingFactor: 2, yarnOriginalMaxPositionEmbeddings: 32 },
    };
    const options = mergeOptions(takenFromDirectory, longer, yarn);
    await runs.run(1, [
      {
        name: 'whole',
        options: mergeOptions(options, { checkpoint: { saveHuggingFace: runs.locate('hf') } }),
      },
      { name: 'begun', options: mergeOptions(options, { training: { exitInterval: 2 } }) },
      {
        name: 'resumed',
        options: mergeOptions(takenFromDirectory, { checkpoint: { load: runs.locate('begun') } }),
      },
      { name: 'plain', options: mergeOptions(takenFromDirectory, longer) },
    ]);
    const sharded: RunOptions = { layout: { tensorModelParallelSize: 2, sequenceParallel: true } };
    await runs.run(2, [{ name: 'sharded', options: mergeOptions(options, sharded) }]);
  }, processTestMs);
  afterAll(() => runs.remove());

  const readWeights = (name: string) => contentOfCheckpoint(join(runs.locate(name), 'iter_0000004'));

  it('computes otherwise than without', () => {
    const [yarn, plain] = [listNumbers(runs.readMetrics('whole')), listNumbers(runs.readMetrics('plain'))];
    expect(yarn).toHaveLength(4);
    expect(Math.abs(yarn[0]![0]! / plain[0]![0]! - 1)).toBeGreaterThan(1e-4);
  });

  it('goes on from a checkpoint bit for bit', async () => {
    expect(listNumbers(runs.readMetrics('resumed'))).toEqual(listNumbers(runs.readMetrics('whole')).slice(2));
    expect(await readWeights('resumed')).toEqual(await readWeights('whole'));
  });

  it('has the curve of one process on two ranks', () => {
    const { loss, norm } = runs.differences('sharded', 'whole');
    expect(loss).toBeLessThan(tolerances.fp32.loss);
    expect(norm).toBeLessThan(tolerances.fp32.norm);
  });

  it('is written for transformers with its positions', () => {
    const config = JSON.parse(readFileSync(join(runs.locate('hf'), 'config.json'), 'utf8')) as object;
    const scaling = { rope_type: 'yarn', factor: 2, original_max_position_embeddings: 32 };
    expect(config).toMatchObject({
      model_type: 'llama',
      max_position_embeddings: 64,
      rope_scaling: scaling,
      rope_parameters: { ...scaling, rope_theta: 10_000 },
    });
  });
});
