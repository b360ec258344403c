import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hostTensor, saveCheckpoint } from '@mtl/checkpoint';
import { formatError } from '@mtl/errors';
import { numLiveTensors } from '@mtl/kernels';
import { readRunRecord } from '@mtl/run-records';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FineTuningConfiguration } from '../src/flags/fine-tuning-configuration.js';
import { fineTune } from '../src/runs/fine-tune.js';
import { SmallTasks } from './support/small-tasks.js';

let tasks: SmallTasks;
beforeAll(async () => {
  tasks = new SmallTasks();
  await saveCheckpoint({
    directory: tasks.path('gpt'),
    iteration: 3,
    rank: 0,
    worldSize: 1,
    barrier: async (isDone) => isDone,
    tensors: [hostTensor({ name: 'weights', dtype: 'F32', globalShape: [8], memory: new Uint8Array(32) })],
    state: {
      progress: { iteration: 3, consumedSamples: 3, consumedTokens: 3 },
      optimizerSteps: 3,
      lossScaler: { scale: 1, growthTracker: 0, hysteresisTracker: 0 },
      // 8 parameters: 6 of the layer, the embedding of tokens and the embedding of positions
      configuration: {
        gptModel: {
          numLayers: 1,
          hiddenSize: 1,
          ffnHiddenSize: 1,
          numAttentionHeads: 1,
          maxPositionEmbeddings: 1,
          vocabularySize: 1,
        },
      },
    },
  });
  mkdirSync(tasks.path('gpt2'));
  writeFileSync(tasks.path('gpt2/config.json'), '{"model_type": "gpt2"}');
});
afterAll(() => tasks.remove());

type Change = (configuration: FineTuningConfiguration) => Partial<FineTuningConfiguration>;

const withTrain =
  (name: string): Change =>
  ({ data }) => ({ data: { ...data, train: tasks.path(name) } });
const withValid =
  (name: string, text?: string): Change =>
  ({ data }) => ({
    data: { ...data, valid: [text === undefined ? tasks.path(name) : tasks.write(name, text)] },
  });
const startingAt =
  (start: Partial<FineTuningConfiguration['start']>): Change =>
  (configuration) => ({ start: { ...configuration.start, scratch: undefined, ...start } });

const header = 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n';
const writeSquad = (qas: string): string =>
  `{"version": "1.1", "data": [{"paragraphs": [{"context": "a cat", "qas": ${qas}}]}]}`;

/** The fault, the change that causes it, the code, and further text that the message must contain. */
const cases: readonly (readonly [string, 'qqp' | 'race' | 'squad', () => Change, string, string])[] = [
  [
    'a training file that is not there',
    'qqp',
    () => withTrain('QQP/nowhere.tsv'),
    'MTL_DATA_TASK_FILE',
    'no such file',
  ],
  [
    'a folder of RACE that is not there',
    'race',
    () => withTrain('RACE/nowhere'),
    'MTL_DATA_TASK_FILE',
    'RACE/nowhere',
  ],
  [
    'a training file without labels',
    'qqp',
    () => withTrain('QQP/test.tsv'),
    'MTL_DATA_TASK_UNLABELLED',
    'pass a test set with --test-data',
  ],
  [
    'a dev file without labels',
    'qqp',
    () => withValid('QQP/test.tsv'),
    'MTL_DATA_TASK_UNLABELLED',
    'QQP/test.tsv',
  ],
  [
    'a dev set without examples',
    'qqp',
    () => withValid('QQP/empty.tsv', header),
    'MTL_DATA_TASK_FILE',
    'empty.tsv: has no examples',
  ],
  [
    'a dev set without passages',
    'race',
    () => withValid('QQP'),
    'MTL_DATA_TASK_FILE',
    'pass RACE/train, RACE/dev',
  ],
  [
    'a dev set without questions',
    'squad',
    () => withValid('SQuAD/none.json', writeSquad('[]')),
    'MTL_DATA_TASK_FILE',
    'none.json: has no questions',
  ],
  [
    'a label outside the set',
    'qqp',
    () => withValid('QQP/label.tsv', `${header}0\t1\t2\ta\tb\t7\n`),
    'MTL_DATA_TASK_LABEL',
    'label.tsv, line 2: the label "7"',
  ],
  [
    'a broken row of a dev file',
    'qqp',
    () => withValid('QQP/broken.tsv', `${header}0\t1\t2\n`),
    'MTL_DATA_TASK_FILE',
    'line 2: has 3 columns',
  ],
  [
    'a malformed SQuAD file',
    'squad',
    () => withValid('SQuAD/bad.json', writeSquad('[{"id": "x", "answers": []}]')),
    'MTL_DATA_TASK_FILE',
    'data[0].paragraphs[0].qas[0]',
  ],
  [
    'a SQuAD file that is no JSON',
    'squad',
    () => withValid('SQuAD/no.json', '{"data": ['),
    'MTL_DATA_TASK_FILE',
    'no.json: is not JSON',
  ],
  [
    'an answer that does not stand there',
    'squad',
    () =>
      withValid(
        'SQuAD/answer.json',
        writeSquad('[{"id": "x", "question": "q", "answers": [{"text": "cat", "answer_start": 0}]}]'),
      ),
    'MTL_DATA_TASK_ANSWER',
    '2, where the context has it first',
  ],
  [
    'a checkpoint of a GPT',
    'qqp',
    () => startingAt({ load: tasks.path('gpt') }),
    'MTL_CHECKPOINT_STATE',
    'holds a GPT',
  ],
  [
    'a directory of a GPT-2',
    'qqp',
    () => startingAt({ loadHuggingFace: tasks.path('gpt2') }),
    'MTL_HUGGING_FACE_CONFIG',
    '"bert"',
  ],
  [
    'no checkpoint',
    'qqp',
    () => startingAt({ load: tasks.path('QQP') }),
    'MTL_CHECKPOINT_NONE',
    'a directory that --save wrote',
  ],
  [
    'a Hugging Face directory as checkpoints',
    'qqp',
    () => startingAt({ load: tasks.path('gpt2') }),
    'MTL_CHECKPOINT_NONE',
    'pass it with --load-hf',
  ],
  ['no model', 'qqp', () => startingAt({}), 'MTL_FLAG_REQUIRED', '--load DIR'],
  [
    'two models',
    'qqp',
    () => startingAt({ load: 'a', loadHuggingFace: 'b' }),
    'MTL_FLAG_CONFLICT',
    '--load and --load-hf',
  ],
  [
    'a model from scratch without a tokenizer',
    'qqp',
    () =>
      ({ start }) => ({ start: { ...start, tokenizer: undefined } }),
    'MTL_FLAG_REQUIRED',
    '--vocab-file',
  ],
  [
    'sequences without room for a question',
    'squad',
    () =>
      ({ spans }) => ({ spans: { ...spans, maximumQueryLength: 64 } }),
    'MTL_DATA_SEQUENCE_LENGTH',
    '68 or more',
  ],
  [
    'a batch larger than the data',
    'qqp',
    () => () => ({ globalBatchSize: 64 }),
    'MTL_BATCH_SIZE',
    'at most 45',
  ],
  [
    'a micro-batch that does not divide the batch',
    'qqp',
    () => () => ({ microBatchSize: 3 }),
    'MTL_BATCH_SIZE',
    '8',
  ],
  [
    'two sets of one name',
    'qqp',
    () =>
      ({ data }) => ({ data: { ...data, valid: ['a/dev.tsv', 'b/dev.tsv'] } }),
    'MTL_FLAG_CONFLICT',
    'a/dev.tsv and b/dev.tsv: results of both would be called dev',
  ],
  [
    'a test set with the name of a dev set',
    'race',
    () =>
      ({ data }) => ({ data: { ...data, valid: ['a/dev/high'], test: ['b/dev/high'] } }),
    'MTL_FLAG_CONFLICT',
    'would be called dev-high',
  ],
  [
    '--resume without --save, before data are read',
    'qqp',
    () =>
      ({ data, checkpoint }) => ({
        data: { ...data, train: 'nowhere.tsv' },
        checkpoint: { ...checkpoint, resume: true },
      }),
    'MTL_FLAG_NEEDS',
    '--save DIR',
  ],
  [
    '--resume without --save',
    'qqp',
    () =>
      ({ checkpoint }) => ({ checkpoint: { ...checkpoint, resume: true } }),
    'MTL_FLAG_NEEDS',
    '--save DIR',
  ],
];

describe('wrong input of a fine-tuning', () => {
  it.each(cases)('%s: one coded error, exit status 2', async (_, task, change, code, says) => {
    const base = tasks.configuration(task);
    const configuration = { ...base, ...change()(base) };
    const error: unknown = await fineTune({ configuration, seeds: [1], onMessage: () => {} }).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ code, exitCode: 2 });
    expect(formatError(error)).toContain(says);
  });

  it('more tokens than the model has positions are refused, where a checkpoint says how many', async () => {
    const save = tasks.path('short');
    const configuration = tasks.configuration('qqp', { epochs: 1 });
    await fineTune({
      configuration: { ...configuration, checkpoint: { ...configuration.checkpoint, save } },
      seeds: [1],
      onMessage: () => {},
    });
    const start = {
      ...configuration.start,
      load: join(save, 'seed-1'),
      scratch: undefined,
      tokenizer: undefined,
    };
    const longer = fineTune({
      configuration: { ...configuration, start, sequenceLength: 33 },
      seeds: [1],
      onMessage: () => {},
    });
    await expect(longer).rejects.toMatchObject({
      code: 'MTL_SEQUENCE_LENGTH',
      exitCode: 2,
      expected: expect.stringContaining('at most 32') as string,
    });
  });

  it('a file of metrics that cannot be opened is recorded as the end of the run, and --resume goes on', async () => {
    const save = tasks.path('unopened');
    const base = tasks.configuration('qqp', { epochs: 1 });
    const configuration = { ...base, checkpoint: { ...base.checkpoint, save } };
    // a path below a file, where no directory can be made
    const metricsJsonl = tasks.path('QQP/train.tsv/metrics.jsonl');
    const run = (changes: Partial<FineTuningConfiguration>) =>
      fineTune({ configuration: { ...configuration, ...changes }, seeds: [1], onMessage: () => {} });
    const readEnds = () => readRunRecord(join(save, 'seed-1'))?.starts.map(({ end }) => end);
    await expect(run({ metricsJsonl })).rejects.toThrow('metrics.jsonl');
    expect(numLiveTensors()).toBe(0);
    expect(readEnds()).toMatchObject([
      { reason: 'failed', iteration: 0, error: expect.stringContaining('metrics.jsonl') as string },
    ]);
    await run({ checkpoint: { ...configuration.checkpoint, resume: true } });
    expect(readEnds()).toMatchObject([{ reason: 'failed' }, { reason: 'done' }]);
  });

  it("broken rows of QQP's training file are left out and counted aloud", async () => {
    const heard: string[] = [];
    const rows = Array.from({ length: 16 }, (_, index) => `${index}\t0\t0\tred\tcat\t${index % 2}\n`).join(
      '',
    );
    const train = tasks.write('QQP/torn.tsv', `${header}${rows}16\t0\t0\ta question\nwith a break\tb\t1\n`);
    const base = tasks.configuration('qqp', { epochs: 1 });
    const configuration = { ...base, data: { ...base.data, train } };
    await fineTune({ configuration, seeds: [1], onMessage: (text) => void heard.push(text) });
    expect(heard[0]).toContain(
      '2 of 18 rows are broken and were left out (the first is line 18: 4 of 6 columns)',
    );
  });
});
