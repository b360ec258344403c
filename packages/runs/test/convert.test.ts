import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { ReplicatedStore } from '@mtl/optimizer';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { checkpointToHuggingFace } from '../src/saved/conversion/from-checkpoint.js';
import { huggingFaceToCheckpoint } from '../src/saved/conversion/to-checkpoint.js';
import { processTestMs } from './support/run-processes.js';
import { listNumbers, type Training, TrainingRuns } from './support/training-runs.js';

const post: RunOptions = { model: { layerNormPlacement: 'post' } };
/** Options for runs that are only needed for their checkpoints. */
const short: RunOptions = { training: { trainIterations: 2 } };
const onNotice = (): void => {};

let runs: TrainingRuns;
beforeAll(async () => {
  runs = await TrainingRuns.create({ training: { trainIterations: 12, evalIterations: 0 } }, 'bert');
  await runs.run(1, [
    {
      name: 'whole',
      options: mergeOptions(post, { checkpoint: { saveHuggingFace: runs.locate('written-by-training') } }),
    },
    { name: 'pre', options: short },
  ]);
  await runs.run(2, [
    { name: 'cut', options: mergeOptions(post, short, { layout: { tensorModelParallelSize: 2 } }) },
    { name: 'staged', options: mergeOptions(post, short, { layout: { pipelineModelParallelSize: 2 } }) },
  ]);
}, processTestMs);
afterAll(() => runs.remove());

async function toHuggingFace(run: string, directory = runs.locate(`${run}-hf`)): Promise<string> {
  await checkpointToHuggingFace({ load: runs.locate(run), directory, dtype: 'F32', onNotice });
  return directory;
}

/** Returns the output of a single-process training run. */
async function readOutput(training: Training): Promise<string> {
  const [results] = await runs.run(1, [training]);
  return results![0]!.output;
}

const files = ['config.json', 'model.safetensors', 'tokenizer_config.json', 'vocab.txt'];
const readBytes = (directory: string, name: string): string =>
  readFileSync(join(directory, name)).toString('base64');

describe('a BERT between checkpoints and directories of transformers', () => {
  it('is written as a training run writes it', async () => {
    const expected = runs.locate('written-by-training');
    const whole = await toHuggingFace('whole');
    for (const name of files) expect(readBytes(whole, name), name).toBe(readBytes(expected, name));
  });

  it.each(['cut', 'staged'])('is complete when ranks have saved its shards: %s', async (run) => {
    const loadHuggingFace = await toHuggingFace(run);
    const directory = runs.locate(`${run}-begun`);
    await huggingFaceToCheckpoint({ loadHuggingFace, directory, onNotice });
    const first: RunOptions = { training: { trainIterations: 1 } };
    await runs.run(1, [
      { name: `${run}-converted`, options: mergeOptions(first, { checkpoint: { load: directory } }) },
      {
        name: `${run}-itself`,
        options: mergeOptions(post, first, { checkpoint: { load: runs.locate(run), finetune: true } }),
      },
    ]);
    // equal weights, data and layout give equal bits
    expect(listNumbers(runs.readMetrics(`${run}-converted`))).toEqual(
      listNumbers(runs.readMetrics(`${run}-itself`)),
    );
  });

  it('comes back, to the byte, and a training run goes on from it with the model that it finds there', async () => {
    const huggingFace = runs.locate('written-by-training');
    const directory = runs.locate('begun');
    const initialize = vi.spyOn(ReplicatedStore.prototype, 'initialize');
    const begun = await huggingFaceToCheckpoint({ loadHuggingFace: huggingFace, directory, onNotice });
    // random weights, which no run would keep
    expect(initialize).not.toHaveBeenCalled();
    initialize.mockRestore();
    expect(begun).toMatchObject({ kind: 'bert', path: join(directory, 'iter_0000000') });
    const again = await toHuggingFace('begun');
    for (const name of files) expect(readBytes(again, name), name).toBe(readBytes(huggingFace, name));
    const options: RunOptions = { training: { trainIterations: 2 }, checkpoint: { load: directory } };
    expect(await readOutput({ name: 'on', options })).toContain('iteration 0');
    // continues from the trained weights
    const [last, first] = [runs.readMetrics('whole').at(-1)!, runs.readMetrics('on')[0]!];
    expect(first.lm_loss).toBeLessThan(last.lm_loss + 0.5);
    expect(runs.readMetrics('whole')[0]!.lm_loss).toBeGreaterThan(last.lm_loss + 0.5);
  });

  it('computes with the epsilon and the GELU that it was trained with, or not at all', async () => {
    const directory = runs.locate('other');
    const source = await toHuggingFace('whole', runs.locate('other-hf'));
    const config = join(source, 'config.json');
    const fields = JSON.parse(readFileSync(config, 'utf8')) as Record<string, unknown>;
    writeFileSync(config, JSON.stringify({ ...fields, layer_norm_eps: 1e-12, hidden_act: 'gelu_new' }));
    await huggingFaceToCheckpoint({ loadHuggingFace: source, directory, onNotice });
    const back = await toHuggingFace('other', runs.locate('other-back'));
    expect(JSON.parse(readFileSync(join(back, 'config.json'), 'utf8'))).toMatchObject({
      layer_norm_eps: 1e-12,
      hidden_act: 'gelu_new',
    });
    await runs.run(1, [
      { name: 'on-other', options: mergeOptions(short, { checkpoint: { load: directory } }) },
    ]);
    const erf: RunOptions = { model: { layerNormEpsilon: 1e-5, geluKind: 'erf' } };
    await expect(
      runs.run(1, [{ name: 'never', options: mergeOptions(erf, { checkpoint: { load: directory } }) }]),
    ).rejects.toThrow(/--norm-epsilon 1e-12 --gelu tanh.*--norm-epsilon 0.00001 --gelu erf/s);
  });

  it.each<[what: string, convert: () => Promise<unknown>, code: string]>([
    ['layer norms before sublayers', () => toHuggingFace('pre'), 'MTL_HUGGING_FACE_LAYER_NORM'],
    [
      'a directory that holds a model',
      () => toHuggingFace('whole', runs.locate('written-by-training')),
      'MTL_HUGGING_FACE_EXISTS',
    ],
    ['no checkpoint', () => toHuggingFace('written-by-training'), 'MTL_CHECKPOINT_NONE'],
    [
      'checkpoints in the way',
      () =>
        huggingFaceToCheckpoint({
          loadHuggingFace: runs.locate('written-by-training'),
          directory: runs.locate('whole'),
          onNotice,
        }),
      'MTL_CHECKPOINT_EXISTS',
    ],
    [
      'a model of another kind',
      () => {
        const loadHuggingFace = runs.locate('whole');
        writeFileSync(join(loadHuggingFace, 'config.json'), '{"model_type":"llama"}');
        return huggingFaceToCheckpoint({ loadHuggingFace, directory: runs.locate('none'), onNotice });
      },
      'MTL_HUGGING_FACE_CONFIG',
    ],
  ])('refuses %s', async (_, convert, code) => {
    await expect(convert()).rejects.toMatchObject({ code, exitCode: 2 });
    expect(existsSync(runs.locate('none'))).toBe(false);
  });
});

describe('--load and --save of one directory', () => {
  it('begin a training run where it is empty, and continue it afterwards', async () => {
    const train = (iterations: number): Promise<string> =>
      readOutput({
        name: 'same',
        options: { checkpoint: { load: runs.locate('same') }, training: { trainIterations: iterations } },
      });
    expect(await train(2)).toContain('there is no checkpoint yet; training starts at iteration 0');
    expect(await train(3)).toContain('iter_0000002, iteration 2');
  });
});
