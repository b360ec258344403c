import { camelCase } from '@mtl/configuration/flags';
import { type ProbedOptions, problemsOfOptions, takes } from '@mtl/errors/testing';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { configureFineTuning } from './flags/configure-fine-tuning.js';
import { type FineTuningOptions, fineTuningFlags } from './flags/fine-tuning-flags.js';
import { fineTune } from './runs/fine-tune.js';

const ofFineTuning = Object.fromEntries(
  Object.entries(fineTuningFlags).map(([flag, schema]) => [
    camelCase(flag),
    (value: unknown) => schema.safeParse(value).success,
  ]),
);

const probed: readonly ProbedOptions[] = [
  {
    name: 'configureFineTuning',
    call: (options) => configureFineTuning(options as FineTuningOptions),
    last: 'seeds',
    accepts: { ...ofFineTuning, seeds: takes.arrayOfNumbers },
  },
  {
    name: 'fineTune',
    call: (options) => fineTune(options as Parameters<typeof fineTune>[0]),
    right: {
      configuration: configureFineTuning({ task: 'qqp', dataDir: 'never-there', load: 'never-there' }),
      onMessage: () => {},
    },
    last: 'onMessage',
    accepts: {
      configuration: takes.nothing,
      seeds: takes.nothing,
      world: takes.nothing,
      local: takes.nothing,
      job: takes.nothing,
      onMessage: takes.function,
    },
  },
];

describe('options of any JavaScript type', () => {
  it.each(probed.map((each) => [each.name, each] as const))(
    'are taken by %s as the schema takes them, or refused with their path',
    async (_, each) => {
      expect(await problemsOfOptions(each)).toEqual([]);
    },
  );

  it('have presets by their names', () => {
    expectTypeOf<FineTuningOptions['preset']>().toEqualTypeOf<
      'megatron-336m' | 'megatron-1.3b' | 'megatron-3.9b' | undefined
    >();
  });
});
