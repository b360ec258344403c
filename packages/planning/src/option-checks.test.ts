import { configure, flagsOfOptions } from '@mtl/configuration';
import {
  catchError,
  type ProbedOptions,
  problemsOfOptions,
  takes,
  valuesOfAllTypes,
} from '@mtl/errors/testing';
import { describe, expect, it } from 'vitest';
import { dryRun } from './dry-run/dry-run.js';
import { planRun } from './plan/plan-run.js';
import { searchLayouts } from './plan/search/search-layouts.js';

const profile = { name: 'never used', hardware: {}, software: {} };

const probed: readonly ProbedOptions[] = [
  {
    name: 'dryRun',
    call: (options) => dryRun(configure(), options as Parameters<typeof dryRun>[1]),
    last: 'onRank',
    accepts: {
      isRun: takes.function,
      withUneven: takes.boolean,
      makeListener: takes.function,
      onRank: takes.function,
    },
  },
  {
    name: 'planRun',
    call: (options) => planRun(configure(), options as Parameters<typeof planRun>[1]),
    right: { profile },
    last: 'memoryBytes',
    accepts: { profile: takes.nothing, memoryBytes: (value) => value === 5 },
  },
  {
    name: 'searchLayouts',
    call: (options) => searchLayouts(options as Parameters<typeof searchLayouts>[0]),
    right: { flags: flagsOfOptions({}), numProcesses: 2, profile },
    last: 'onProgress',
    accepts: {
      flags: takes.nothing,
      numProcesses: (value) => value === 5,
      profile: takes.nothing,
      memoryBytes: (value) => value === 5,
      numBest: (value) => value === 5,
      onProgress: takes.function,
    },
  },
];

describe('options of any JavaScript type', () => {
  it.each(probed.map((each) => [each.name, each] as const))(
    'are taken by %s, or refused with their path',
    async (_, each) => {
      expect(await problemsOfOptions(each)).toEqual([]);
    },
  );

  it('are refused where flags have no request, which a search adds flags to', async () => {
    const { request, ...flags } = flagsOfOptions({});
    const { given: _, ...withoutGiven } = request;
    for (const [value, path] of [
      [flags, 'flags.request'],
      [{ ...flags, request: withoutGiven }, 'flags.request.given'],
    ] as const) {
      const options = { flags: value, numProcesses: 2, profile } as never;
      expect(await catchError(() => searchLayouts(options))).toMatchObject({
        code: 'MTL_OPTION',
        message: `${path} is missing`,
      });
    }
  });

  it('are refused where they are configurations', async () => {
    for (const value of valuesOfAllTypes) {
      for (const call of [
        () => dryRun(value as never),
        () => planRun(value as never, { profile } as never),
      ]) {
        const message = expect.stringMatching(/^configuration[ .]/);
        expect(await catchError(call)).toMatchObject({ code: 'MTL_OPTION', message });
      }
    }
  });
});
