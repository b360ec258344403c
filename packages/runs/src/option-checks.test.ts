import { configure } from '@mtl/configuration';
import {
  catchError,
  type ProbedOptions,
  problemsOfOptions,
  takes,
  valuesOfAllTypes,
} from '@mtl/errors/testing';
import { listRuns, readRun, removeRun, sendRun } from '@mtl/run-records';
import { describe, expect, it } from 'vitest';
import { openTraining } from './training/open-training.js';
import { runTrainingProgram } from './training/run-training-program.js';
import { type TrainOptions, train } from './training/train.js';

const probed: readonly ProbedOptions[] = [
  {
    // options that are flags are tested in option-checks.test.ts in @mtl/configuration
    name: 'train',
    call: (options) => train(options as TrainOptions),
    last: 'extensions',
    accepts: {
      preset: takes.anyText,
      'model.hiddenSize': (value) => value === 5,
      'model.kind': takes.nothing,
      'training.bf16': takes.boolean,
      'checkpoint.save': takes.text,
      'data.dataPath': (value) => takes.arrayOfTexts(value) && !takes.emptyArray(value),
      blocks: takes.function,
      stream: takes.nothing,
      'stream.write': takes.function,
      extensions: takes.emptyArray,
      planning: takes.nothing,
    },
  },
  {
    name: 'openTraining',
    call: (options) => openTraining(options as Parameters<typeof openTraining>[0]),
    right: { configuration: configure(), corpusDirectory: 'never-used' },
    last: 'rankWatchTimes',
    accepts: {
      configuration: takes.nothing,
      corpusDirectory: takes.text,
      stream: takes.nothing,
      world: takes.nothing,
      closesWorld: takes.boolean,
      local: takes.nothing,
      job: takes.nothing,
      commandLine: takes.text,
      conversations: takes.anyObject,
      extensions: takes.emptyArray,
      planning: takes.nothing,
      rankWatchTimes: takes.emptyObject,
      'rankWatchTimes.leastReportMs': takes.number,
    },
  },
  {
    name: 'runTrainingProgram',
    call: (options) => runTrainingProgram(options as Parameters<typeof runTrainingProgram>[0]),
    right: { model: 'gpt', program: 'x', description: 'y', argv: [] },
    last: 'checkFlags',
    accepts: {
      model: takes.nothing,
      program: takes.text,
      description: takes.text,
      argv: takes.arrayOfTexts,
      defaults: takes.emptyObject,
      'defaults.lr': (value) => value === 5,
      planning: takes.nothing,
      checkFlags: takes.function,
    },
  },
  {
    name: 'sendRun',
    call: (options) => sendRun(options as Parameters<typeof sendRun>[0]),
    right: { directory: 'never-there', environment: {}, onMessage: () => {} },
    last: 'onMessage',
    accepts: { directory: takes.text, environment: takes.anyObject, onMessage: takes.function },
  },
];

describe('options of any JavaScript type', () => {
  it.each(probed.map((each) => [each.name, each] as const))(
    'are taken by %s, or refused with their path',
    async (_, each) => {
      expect(await problemsOfOptions(each)).toEqual([]);
    },
  );

  it('are refused where they are folders of runs', async () => {
    for (const value of valuesOfAllTypes.filter((each) => typeof each !== 'string' || each === '')) {
      for (const call of [readRun, listRuns, removeRun]) {
        const error = await catchError(() => call(value as string));
        expect(error).toMatchObject({ code: 'MTL_OPTION', message: expect.stringMatching(/^directory is /) });
      }
    }
  });

  it.each([
    [null, 'the value for the options of a run is null'],
    [5, 'the value for the options of a run is 5'],
    [[], 'the value for the options of a run is an empty array'],
    [{ preset: 5 }, 'preset is 5'],
    [{ blocks: 5 }, 'blocks is 5'],
    [{ extensions: [null] }, 'extensions[0] is null'],
    [{ extensions: [{ name: 'a', afterStep: 5 }] }, 'extensions[0].afterStep is 5'],
    [{ stream: {} }, 'stream.write is missing'],
    [{ model: { hiddenSize: '32' } }, 'model.hiddenSize "32" in the options'],
    [{ training: { bf16: 'true' } }, 'training.bf16 "true" in the options'],
    [{ checkpoint: { save: 7 } }, 'checkpoint.save 7 in the options'],
    [{ streams: process.stdout }, 'streams is no option of a run'],
  ])('end train before it begins: %j', async (options, message) => {
    expect(await catchError(() => train(options as TrainOptions))).toMatchObject({
      code: expect.stringMatching(/^MTL_(OPTION|FLAG_VALUE)$/),
      exitCode: 2,
      message,
      expected: expect.any(String),
    });
  });
});
