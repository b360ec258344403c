import {
  catchError,
  type ProbedOptions,
  problemsOfOptions,
  takes,
  valuesOfAllTypes,
} from '@mtl/errors/testing';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { parseFlags } from '../command-line/parse-flags.js';
import { formatHelp } from '../command-line/program-help.js';
import { type ResolveFlagsOptions, resolveFlags } from '../command-line/resolve-flags.js';
import type { PresetName } from '../presets/presets.js';
import { findSchema } from '../schema/flag-schema.js';
import { validateConfiguration } from '../validation/validate-configuration.js';
import { configure, flagsOfOptions } from './configure.js';
import { flagsOfTopic, optionsOfFlags, optionTopics, type RunOptions } from './run-options.js';

/**
 * Checks by option name: each function returns true if a value is valid according to the schema of the
 * option's flag.
 */
const ofRun: Record<string, (value: unknown) => boolean> = Object.fromEntries(
  optionTopics.flatMap((topic) => [
    [topic, takes.emptyObject] as const,
    ...[...flagsOfTopic.get(topic)!].map(
      ([key, flag]) =>
        [`${topic}.${key}`, (value: unknown) => findSchema(flag).safeParse(value).success] as const,
    ),
  ]),
);

const probed: readonly ProbedOptions[] = [
  {
    name: 'flagsOfOptions',
    call: (options) => flagsOfOptions(options as RunOptions),
    last: 'preset',
    accepts: { ...ofRun, 'model.kind': takes.nothing, preset: takes.anyText },
  },
  {
    name: 'configure',
    call: (options) => configure(options as RunOptions),
    last: 'preset',
    accepts: { 'model.hiddenSize': (value) => value === 5, 'checkpoint.save': takes.text },
  },
  {
    name: 'validateConfiguration',
    call: (how) => validateConfiguration(parseFlags([]), how as object),
    last: 'conversations',
    accepts: { worldSize: (value) => value === 5, conversations: takes.nothing },
  },
  {
    name: 'parseFlags',
    call: (options) => parseFlags([], options as object),
    last: 'unused',
    accepts: {
      model: takes.nothing,
      unused: takes.emptyObject,
      'unused.lr': (value) => findSchema('lr').safeParse(value).success,
    },
  },
  {
    name: 'resolveFlags',
    call: (options) => resolveFlags(options as ResolveFlagsOptions),
    right: { given: new Map() },
    last: 'unused',
    accepts: {
      given: (value) => value instanceof Map,
      givenBy: takes.nothing,
      file: takes.nothing,
      loaded: takes.nothing,
      preset: takes.anyText,
      model: takes.nothing,
      unused: takes.emptyObject,
    },
  },
  {
    name: 'formatHelp',
    call: (options) => formatHelp(options as Parameters<typeof formatHelp>[0]),
    right: { program: 'x', description: 'y' },
    last: 'model',
    accepts: {
      program: takes.text,
      columns: takes.number,
      description: takes.text,
      model: takes.nothing,
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

  it('are refused where they are arguments of their own', async () => {
    for (const value of valuesOfAllTypes) {
      if (!takes.emptyArray(value) && !takes.arrayOfTexts(value))
        expect(await catchError(() => parseFlags(value as never)), String(value)).toMatchObject({
          code: 'MTL_OPTION',
        });
      const flags = await catchError(() => validateConfiguration(value as never));
      expect(flags).toMatchObject({ code: 'MTL_OPTION', message: expect.stringMatching(/^flags[ .]/) });
      if (!takes.anyObject(value))
        expect(await catchError(() => optionsOfFlags(value as never))).toMatchObject({ code: 'MTL_OPTION' });
    }
  });

  it('keep texts for command lines and files', async () => {
    expect(parseFlags(['--hidden-size', '32', '--bf16']).values).toMatchObject({
      'hidden-size': 32,
      bf16: true,
    });
    const model = { hiddenSize: '32' } as object;
    expect(await catchError(() => configure({ model }))).toMatchObject({
      code: 'MTL_FLAG_VALUE',
      message: 'model.hiddenSize "32" in the options',
      expected: 'a whole number of 1 or more',
    });
    const data = { dataPath: 'prefix' } as object;
    expect(await catchError(() => configure({ data }))).toMatchObject({
      message: 'data.dataPath "prefix" in the options',
      expected: 'an array: one text or more',
    });
    const layout = { device: 'gpu' } as object;
    expect(await catchError(() => configure({ layout }))).toMatchObject({
      message: 'layout.device "gpu" in the options',
      remedy: 'write layout.device cuda',
    });
  });
});

describe('the types of options', () => {
  it('are unions of names where these are fixed', () => {
    expectTypeOf<'char-10m' | 'bert-base' | 'llama3-8b' | 'none'>().toExtend<PresetName>();
    expectTypeOf<'char-10'>().not.toExtend<PresetName>();
    expectTypeOf<string>().not.toExtend<PresetName>();
    expectTypeOf<RunOptions['preset']>().toEqualTypeOf<PresetName | undefined>();
    type Optimizer = NonNullable<RunOptions['optimizer']>;
    expectTypeOf<Optimizer['optimizer']>().toEqualTypeOf<
      'adam' | 'adamw' | 'muon' | 'dist_muon' | undefined
    >();
    type Layout = NonNullable<RunOptions['layout']>;
    expectTypeOf<Layout['device']>().toEqualTypeOf<'cpu' | 'cuda' | undefined>();
    // @ts-expect-error the preset char-10 does not exist
    const wrong: RunOptions = { preset: 'char-10' };
    expect(() => configure(wrong)).toThrow('unknown preset char-10');
  });
});
