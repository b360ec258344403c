import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { checkpointToHuggingFace } from '@mtl/runs';
import { processTestMs } from '@mtl/runs/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FineTuningConfiguration } from '../src/flags/fine-tuning-configuration.js';
import { type FineTuningReport, fineTune } from '../src/runs/fine-tune.js';
import type { FineTuneArgument } from './ranks/fine-tune.js';
import { SmallTasks } from './support/small-tasks.js';

let tasks: SmallTasks;
beforeAll(() => {
  tasks = new SmallTasks({ microBatchSize: 4 });
});
afterAll(() => tasks.remove());

const onMessage = (): void => {};
type Task = 'qqp' | 'race' | 'squad';

/** Returns the configuration of a model whose layer norms are placed as in transformers. */
function makeConfiguration(
  task: Task,
  {
    checkpoint,
    ...changes
  }: Partial<Omit<FineTuningConfiguration, 'checkpoint'>> & {
    readonly checkpoint?: Partial<FineTuningConfiguration['checkpoint']>;
  },
): FineTuningConfiguration {
  const plain = tasks.configuration(task);
  const { start } = plain;
  return {
    ...plain,
    epochs: 2,
    start: { ...start, scratch: { ...start.scratch!, numLayers: 2, layerNormPlacement: 'post' } },
    ...changes,
    checkpoint: { ...plain.checkpoint, ...checkpoint },
  };
}

/**
 * Evaluates on the sets a model that is read from a directory. A training step is part of it, with a learning
 * rate too small to change the weights.
 */
async function evaluate(task: Task, directory: string) {
  const heard: string[] = [];
  const { start, optimizer } = tasks.configuration(task);
  const still = { ...optimizer, learningRate: 1e-12 };
  const named = { ...start, scratch: undefined, tokenizer: undefined, loadHuggingFace: directory };
  const report = await fineTune({
    configuration: makeConfiguration(task, { start: named, epochs: 1, optimizer: still }),
    seeds: [9],
    onMessage: (text: string) => void heard.push(text),
  });
  return { report, heard: heard.join('\n') };
}

const readJson = (path: string) => JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;

describe('--save-hf of a fine-tuning', () => {
  it.each([
    ['qqp', 'BertForSequenceClassification'],
    ['race', 'BertForMultipleChoice'],
    ['squad', 'BertForQuestionAnswering'],
  ] as const)('is a directory that says the same: %s', async (task, className) => {
    const saveHuggingFace = tasks.path(`hf-${task}`);
    const configuration = makeConfiguration(task, { checkpoint: { saveHuggingFace } });
    const report = await fineTune({ configuration, seeds: [5], onMessage });
    expect(readJson(join(saveHuggingFace, 'config.json'))).toMatchObject({
      architectures: [className],
      model_type: 'bert',
      vocab_size: 18,
      pad_token_id: 0,
      ...(task === 'qqp' ? { id2label: { 0: '0', 1: '1' }, label2id: { 0: 0, 1: 1 } } : {}),
    });
    expect(readJson(join(saveHuggingFace, 'tokenizer_config.json'))).toMatchObject({ do_lower_case: true });
    const vocabularies = [tasks.path('vocab.txt'), join(saveHuggingFace, 'vocab.txt')];
    expect(readFileSync(vocabularies[1]!, 'utf8')).toBe(readFileSync(vocabularies[0]!, 'utf8'));
    const again = await evaluate(task, saveHuggingFace);
    expect(again.heard).toContain('initial: none');
    const [set] = Object.keys(report.median) as [string];
    // a step with a rate of 1e-12 moves weights by less than their rounding
    expect(again.report.median[set]).toEqual(report.median[set]);
  });

  it('is written from the checkpoints of several processes, for each seed, also afterwards', {
    tags: ['whole'],
    timeout: processTestMs,
  }, async () => {
    const checkpoint = { save: tasks.path('sharded'), saveHuggingFace: tasks.path('hf-sharded') };
    const parallel = { threads: 1, 'tensor-model-parallel-size': 2, 'pipeline-model-parallel-size': 2 };
    const argument: FineTuneArgument = {
      configuration: makeConfiguration('qqp', { checkpoint, parallel }),
      seeds: [5, 6],
    };
    const [[report]] = (await runInMemoryRanks<FineTuningReport[]>({
      worldSize: 4,
      argument: [argument],
      timeoutMs: 60_000,
      ...rankThreads(new URL('./ranks/fine-tune.ts', import.meta.url)),
    })) as [[FineTuningReport]];
    const loss = ({ seeds }: FineTuningReport, index: number) => seeds[index]!.epochs.at(-1)!.sets.dev!.loss;
    for (const [index, seed] of [5, 6].entries()) {
      const again = await evaluate('qqp', tasks.path(`hf-sharded/seed-${seed}`));
      // layouts round at other points of the computation
      expect(Math.abs(loss(again.report, 0) / loss(report, index) - 1)).toBeLessThan(2e-6);
    }
    rmSync(tasks.path('hf-sharded/seed-5'), { recursive: true });
    await expect(
      checkpointToHuggingFace({
        load: tasks.path('sharded/seed-6'),
        directory: tasks.path('never'),
        dtype: 'F32',
        onNotice: onMessage,
      }),
    ).rejects.toMatchObject({ code: 'MTL_FINE_TUNING_CONVERT', exitCode: 2 });
    const heard: string[] = [];
    const before = readFileSync(tasks.path('hf-sharded/seed-6/model.safetensors'));
    await fineTune({
      configuration: makeConfiguration('qqp', { checkpoint: { ...checkpoint, resume: true } }),
      seeds: [5, 6],
      onMessage: (text) => void heard.push(text),
    });
    expect(heard).toContain(`wrote ${tasks.path('hf-sharded/seed-5')}`);
    expect(heard).toContain(`seed 6: ${tasks.path('hf-sharded/seed-6')} was written before`);
    expect(heard.join('\n')).not.toContain(`wrote ${tasks.path('hf-sharded/seed-6')}`);
    expect(existsSync(tasks.path('hf-sharded/seed-5/model.safetensors'))).toBe(true);
    expect(readFileSync(tasks.path('hf-sharded/seed-6/model.safetensors')).equals(before)).toBe(true);
  });

  it('of a run that is gone on with takes only what it wrote itself for there already', async () => {
    const heard: string[] = [];
    const run = (name: string, saveHuggingFace: string | undefined) =>
      fineTune({
        configuration: makeConfiguration('qqp', {
          epochs: 1,
          checkpoint: { save: tasks.path(name), saveHuggingFace, resume: true },
        }),
        seeds: [5],
        onMessage: (text: string) => void heard.push(text),
      });
    const [first, second] = [tasks.path('hf-first'), tasks.path('hf-second')];
    await run('first', undefined);
    await run('second', second);
    const weights = () => readFileSync(join(second, 'model.safetensors'));
    const before = weights();
    // both runs are finished, and `second` holds a complete model of the other run
    await expect(run('first', second)).rejects.toMatchObject({ code: 'MTL_HUGGING_FACE_EXISTS' });
    expect(weights().equals(before)).toBe(true);
    await run('first', first);
    // the same directory under another spelling of its name
    await run('first', relative(process.cwd(), first));
    expect(heard.filter((text) => /wrote|written/.test(text))).toEqual([
      `wrote ${second}`,
      `wrote ${first}`,
      `seed 5: ${relative(process.cwd(), first)} was written before`,
    ]);
    await expect(run('first', second)).rejects.toMatchObject({ code: 'MTL_HUGGING_FACE_EXISTS' });
  });

  it.each([
    [
      'layer norm before the sublayers',
      () => makeConfiguration('qqp', { start: tasks.configuration('qqp').start }),
      { code: 'MTL_HUGGING_FACE_LAYER_NORM', expected: '--layer-norm-placement post' },
    ],
    [
      'a directory that holds files',
      () => makeConfiguration('qqp', { checkpoint: { saveHuggingFace: tasks.path('QQP') } }),
      { code: 'MTL_HUGGING_FACE_EXISTS' },
    ],
  ])('refuses %s, before anything is trained', async (_, change, refusal) => {
    const heard: string[] = [];
    const changed = change();
    const { saveHuggingFace = tasks.path('never') } = changed.checkpoint;
    const configuration = { ...changed, checkpoint: { ...changed.checkpoint, saveHuggingFace } };
    const running = fineTune({ configuration, seeds: [5], onMessage: (text) => void heard.push(text) });
    await expect(running).rejects.toMatchObject({ ...refusal, exitCode: 2 });
    expect(heard).toEqual([]);
    expect(existsSync(tasks.path('never'))).toBe(false);
  });
});
