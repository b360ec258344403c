import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FineTuningConfiguration } from '../src/flags/fine-tuning-configuration.js';
import { type FineTuningReport, fineTune } from '../src/runs/fine-tune.js';
import { SmallTasks } from './support/small-tasks.js';
import { readSteps } from './support/task-steps.js';

let tasks: SmallTasks;
beforeAll(() => {
  tasks = new SmallTasks({ microBatchSize: 4 });
});
afterAll(() => tasks.remove());

const onMessage = (): void => {};

const saving = (name: string, more: Partial<FineTuningConfiguration['checkpoint']> = {}) => ({
  checkpoint: {
    save: tasks.path(name),
    saveHuggingFace: undefined,
    saveInterval: undefined,
    keepLast: 1,
    resume: false,
    ...more,
  },
});

describe('fineTune', () => {
  it('learns QQP, scores every epoch, and writes what it was asked for', async () => {
    const test = [tasks.path('QQP/test.tsv')];
    const configuration = tasks.configuration('qqp', { ...saving('qqp'), epochs: 5 });
    const owned: number[][] = [];
    const ownedSeeds = (): number[] =>
      [1, 2, 3].filter((seed) => existsSync(tasks.path(`qqp/seed-${seed}/run_owner.1`)));
    const report = await fineTune({
      configuration: { ...configuration, data: { ...configuration.data, test } },
      seeds: [1, 2, 3],
      onMessage: (text) => {
        if (text.startsWith('epoch 5, dev')) owned.push(ownedSeeds());
      },
    });
    // a running seed owns its folder, which `mtl runs` shows
    expect([...owned, ownedSeeds()]).toEqual([[1], [2], [3], []]);
    expect(report).toMatchObject({ task: 'qqp', reason: 'done', model: undefined });
    expect(report.seeds.map(({ seed }) => seed)).toEqual([1, 2, 3]);
    const accuracies = report.seeds.map(({ epochs }) => epochs.at(-1)!.sets.dev!.accuracy!);
    expect(report.median.dev!.accuracy).toBe(accuracies.toSorted((a, b) => a - b)[1]);
    // one of two words decides the label; always giving the same answer is right in two of three cases
    expect(report.median.dev!.accuracy).toBeGreaterThan(90);
    for (const { epochs, predictions, seed } of report.seeds) {
      expect(epochs.map(({ epoch, iteration }) => [epoch, iteration])).toEqual(
        Array.from({ length: 5 }, (_, index) => [index + 1, 5 * (index + 1)]),
      );
      expect(epochs[0]!.sets.dev!.loss).toBeGreaterThan(epochs.at(-1)!.sets.dev!.loss);
      expect(predictions).toEqual(
        ['dev', 'test'].map((name) => tasks.path(`qqp/seed-${seed}/predictions/${name}.tsv`)),
      );
      expect(readFileSync(predictions[1]!, 'utf8')).toMatch(/^index\tprediction\n0\t[01]\n1\t[01]\n$/);
    }
    expect(JSON.parse(readFileSync(tasks.path('qqp/report.json'), 'utf8'))).toEqual(
      JSON.parse(JSON.stringify(report)),
    );
  });

  it('learns RACE and SQuAD', async () => {
    const race = await fineTune({
      configuration: tasks.configuration('race', { epochs: 5 }),
      seeds: [1],
      onMessage,
    });
    // the correct option among the four options is always the same word
    expect(race.median.dev!.accuracy).toBe(100);
    expect(Object.keys(race.median.dev!)).toEqual(['loss', 'accuracy', 'accuracy_high']);
    const configuration = tasks.configuration('squad', { ...saving('squad'), epochs: 9 });
    const squad = await fineTune({ configuration, seeds: [1], onMessage });
    // always giving the same answer would give 82 %: it is right for 9 of 11 questions
    expect(squad.median['dev-v2.0']!.f1).toBe(100);
    const [answers, probabilities] = squad.seeds[0]!.predictions.map(
      (path) => JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>,
    );
    expect(Object.keys(answers!)).toEqual(Array.from({ length: 11 }, (_, index) => `q${index}`));
    expect(Object.keys(probabilities!)).toEqual(Object.keys(answers!));
  });

  it('starts from the weights of a fine-tuned model, its head too if it is of the same task', async () => {
    const heard: string[] = [];
    const start = {
      ...tasks.configuration('qqp').start,
      load: tasks.path('qqp/seed-1'),
      scratch: undefined,
      tokenizer: undefined,
    };
    const onTask = (task: 'qqp' | 'race', initialWeights = false) =>
      fineTune({
        configuration: tasks.configuration(task, {
          start: { ...start, initialWeights },
          epochs: 1,
          optimizer: still,
        }),
        seeds: [1],
        onMessage: (text: string) => void heard.push(text),
      });
    const still = { ...tasks.configuration('qqp').optimizer, learningRate: 1e-12 };
    const again = await onTask('qqp');
    const before = JSON.parse(readFileSync(tasks.path('qqp/seed-1/result.json'), 'utf8'));
    // the weights have not changed
    expect(again.median.dev!.accuracy).toBe(before.epochs.at(-1).sets.dev.accuracy);
    await onTask('race');
    expect(heard.join('\n')).toContain('initial: none');
    expect(heard.join('\n')).toContain('initial: multichoice_head.weight, multichoice_head.bias');
    const fresh = await onTask('qqp', true);
    expect(fresh.model).toBeUndefined();
    expect(heard.at(-1)).toContain('epoch 1, dev');
    expect(fresh.median.dev!.loss).toBeGreaterThan(again.median.dev!.loss!);
  });

  it('starts from a directory of the transformers library, in bfloat16', async () => {
    const heard: string[] = [];
    const loadHuggingFace = fileURLToPath(
      new URL('../../formats/fixtures/huggingface-bert', import.meta.url),
    );
    const start = { ...tasks.configuration('qqp').start, scratch: undefined, loadHuggingFace };
    const changes = { start, epochs: 1, sequenceLength: undefined, precision: 'bf16' } as const;
    const report = await fineTune({
      configuration: tasks.configuration('qqp', changes),
      seeds: [1],
      onMessage: (text: string) => void heard.push(text),
    });
    expect(report).toMatchObject({ model: loadHuggingFace, reason: 'done' });
    // the model's pooler is kept, and all of its 24 positions are used unless a flag requests fewer
    expect(heard[0]).toContain('samples of 24 tokens');
    expect(heard[1]).toContain('initial: classification_head.weight, classification_head.bias');
  });

  it('goes on after an interruption as if there had been none, bit for bit', async () => {
    const run = (name: string, changes: Partial<FineTuningConfiguration>, resume = false) =>
      fineTune({
        configuration: tasks.configuration('qqp', {
          ...saving(name, { resume }),
          metricsJsonl: tasks.path(`${name}.jsonl`),
          ...changes,
        }),
        seeds: [3, 4],
        onMessage,
      });
    const whole = await run('whole', {});
    // stops in the middle of the second epoch of the first seed
    const first = await run('parts', { exitInterval: 7 });
    expect(first.reason).toBe('exit-interval');
    expect(first.seeds).toHaveLength(1);
    expect(first.seeds[0]!.epochs).toEqual(whole.seeds[0]!.epochs.slice(0, 1));
    // stops in the middle of the second epoch of the second seed
    const second = await run('parts', { exitInterval: 8 }, true);
    expect(second.seeds[0]!.isDone).toBe(false);
    await run('parts', {}, true);
    const last = await run('parts', {}, true);
    const results = ({ seeds }: FineTuningReport) => seeds.map(({ epochs }) => epochs);
    expect(results(last)).toEqual(results(whole));
    expect(last.median).toEqual(whole.median);
    for (const seed of ['seed-3', 'seed-4']) {
      for (const name of ['iter_0000015/shard-00000-000.safetensors', 'predictions/dev.tsv']) {
        const [actual, expected] = ['parts', 'whole'].map((run) =>
          readFileSync(tasks.path(join(run, seed, name))),
        );
        expect(actual!.equals(expected!), `${seed}/${name}`).toBe(true);
      }
      const [actual, expected] = ['parts', 'whole'].map((run) =>
        readSteps(tasks.path(`${run}.${seed}.jsonl`)).map(({ task_loss, grad_norm }) => [
          task_loss,
          grad_norm,
        ]),
      );
      expect(actual).toEqual(expected);
    }
  });

  it('says of seeds that were not begun that they begin', async () => {
    const heard: string[] = [];
    const configuration = tasks.configuration('qqp', { ...saving('later'), epochs: 1 });
    await fineTune({ configuration, seeds: [3], onMessage });
    const checkpoint = { ...configuration.checkpoint, resume: true };
    await fineTune({
      configuration: { ...configuration, checkpoint },
      seeds: [3, 4],
      onMessage: (text) => void heard.push(text),
    });
    expect(heard).toContain('seed 3: done before');
    expect(heard).toContain('seed 4: nothing was saved yet, it begins at its first step');
    expect(heard.join('\n')).not.toContain('restarted');
  });

  it('refuses to go on with results on other sets, with and without a checkpoint that says so', async () => {
    const configuration = tasks.configuration('qqp', { ...saving('sets'), epochs: 1 });
    await fineTune({ configuration, seeds: [3], onMessage });
    const other = tasks.write('QQP/other.tsv', readFileSync(tasks.path('QQP/dev.tsv'), 'utf8'));
    const again = () =>
      fineTune({
        configuration: {
          ...configuration,
          data: { ...configuration.data, valid: [other] },
          checkpoint: { ...configuration.checkpoint, resume: true },
        },
        seeds: [3, 4],
        onMessage,
      });
    const refusal = { code: 'MTL_FINE_TUNING_RESUME', exitCode: 2 };
    await expect(again()).rejects.toMatchObject({
      ...refusal,
      message: expect.stringContaining('of other settings: data') as string,
    });
    for (const name of readdirSync(tasks.path('sets/seed-3')))
      if (name !== 'result.json') rmSync(tasks.path(`sets/seed-3/${name}`), { recursive: true });
    await expect(again()).rejects.toMatchObject({
      ...refusal,
      expected: expect.stringContaining('dev, not other') as string,
    });
  });

  it.each([
    ['a folder with results, without --resume', {}, 'MTL_FINE_TUNING_EXISTS', 'pass --resume'],
    [
      'a resumed run of other settings',
      { epochs: 4, resume: true },
      'MTL_FINE_TUNING_RESUME',
      'pass the flags of that run',
    ],
  ])(
    'refuses %s',
    async (_, { resume = false, ...changes }: { resume?: boolean; epochs?: number }, code, remedy) => {
      const configuration = tasks.configuration('qqp', { ...saving('whole', { resume }), ...changes });
      const before = readdirSync(tasks.path('whole'));
      await expect(fineTune({ configuration, seeds: [3], onMessage })).rejects.toMatchObject({
        code,
        remedy: expect.stringContaining(remedy) as string,
        exitCode: 2,
      });
      expect(readdirSync(tasks.path('whole'))).toEqual(before);
    },
  );
});
