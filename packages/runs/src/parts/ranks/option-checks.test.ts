import { configure } from '@mtl/configuration';
import { problemsOfOptions, takes } from '@mtl/errors/testing';
import { expect, it } from 'vitest';
import { TrainingProcesses, type TrainingProcessesOptions } from './training-processes.js';

it('options of any JavaScript type are taken by TrainingProcesses, or refused with their path', async () => {
  const problems = await problemsOfOptions({
    name: 'TrainingProcesses',
    call: (options) => new TrainingProcesses(options as TrainingProcessesOptions),
    right: { world: undefined, parallel: configure().parallel },
    last: 'areApart',
    accepts: {
      world: takes.nothing,
      parallel: takes.anyObject,
      ends: takes.emptyArray,
      areApart: takes.boolean,
    },
  });
  expect(problems).toEqual([]);
});
