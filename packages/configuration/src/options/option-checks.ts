import { nearestName, rewordError } from '@mtl/errors';
import {
  choiceOption,
  groupOption,
  type OptionCheck,
  type OptionChecks,
  objectOption,
  optionThat,
  required,
  wholeNumberOption,
} from '@mtl/errors/options';
import type * as z from 'zod';
import { modelKinds } from '../architecture/architecture-field.js';
import type { FlagFragment } from '../flags/flag-values.js';
import { camelCase, optionName } from '../flags/option-names.js';
import { findSchema, flagNames } from '../schema/flag-schema.js';
import { readFlagValue } from '../schema/flag-value.js';
import {
  findOption,
  flagsOfTopic,
  inWordsOfOptions,
  type OptionTopic,
  optionTopics,
  type RunOptions,
  type TopicValues,
  withCurrentNames,
} from './run-options.js';

/**
 * Makes the check of an option from the schema of its flag.
 *
 * @param reword replaces names of flags in an error by names of options
 */
function checkOfFlag(
  name: string,
  { schema, reword }: { readonly schema: z.ZodType; readonly reword: (error: unknown) => unknown },
): OptionCheck<false> {
  return {
    isRequired: false,
    check: (value, { path }) => {
      try {
        readFlagValue({ name, schema, value, where: 'in the options', isTyped: true });
      } catch (error) {
        throw reword(rewordError(error, (text) => text.replaceAll(`--${name} `, `${path} `)));
      }
    },
  };
}

/** Makes the checks of options from the schemas of their flags. The checks are keyed by option name. */
export function checksOfFlags(
  flags: FlagFragment,
  reword: (error: unknown) => unknown,
): Readonly<Record<string, OptionCheck<false>>> {
  return Object.fromEntries(
    Object.entries(flags).map(([name, schema]) => [camelCase(name), checkOfFlag(name, { schema, reword })]),
  );
}

/**
 * Checks flag values, keyed by flag name. A program supplies them for flags that get no value from any other
 * source.
 */
export const flagValuesOption: OptionCheck<false> = groupOption(
  Object.fromEntries(
    flagNames.map((name) => [
      name,
      checkOfFlag(name, { schema: findSchema(name), reword: (error) => error }),
    ]),
  ),
  { of: 'the flags of a run' },
);

/** Checks the kind of model. */
export const modelKindOption: OptionCheck<false> = choiceOption(modelKinds);

/** Checks only that a preset's name is a string, because the presets depend on the kind of model. */
export const presetOption: OptionCheck<false> = optionThat(
  'the name of a preset, or none',
  (value) => typeof value === 'string',
);

function topicOption(topic: OptionTopic): OptionCheck<false> {
  const checks = Object.fromEntries(
    [...flagsOfTopic.get(topic)!].map(([key, name]) => [
      key,
      checkOfFlag(name, { schema: findSchema(name), reword: inWordsOfOptions }),
    ]),
  );
  const kind = topic === 'model' ? { kind: modelKindOption } : {};
  const group = groupOption(
    { ...kind, ...checks },
    { of: 'a run', meant: (name) => optionElsewhere(name, topic) },
  );
  return {
    ...group,
    check: (value, place) => {
      const isGroup = typeof value === 'object' && value !== null && !Array.isArray(value);
      group.check(isGroup ? withCurrentNames(topic, value as TopicValues).values : value, place);
    },
  };
}

/**
 * Returns the option that has this name in a topic other than `topic`, or the option of the flag that has
 * this name.
 */
function optionElsewhere(name: string, topic?: OptionTopic): string | undefined {
  const key = optionName(name);
  const own = topic === undefined ? undefined : flagsOfTopic.get(topic)!.get(key);
  if (own !== undefined) return findOption(own);
  const found = optionTopics.find((each) => flagsOfTopic.get(each)!.has(key));
  return found && `${found}.${key}`;
}

/** The checks of a run's options, made from the schemas of flags and keyed by topic. */
export const runOptionChecks = {
  ...Object.fromEntries(optionTopics.map((topic) => [topic, topicOption(topic)])),
  preset: presetOption,
} as OptionChecks<RunOptions>;

/**
 * The names for a run's options in errors. `meant` returns the option that the user may mean by an unknown
 * name.
 */
export const ofRun = {
  of: 'a run',
  meant: (name: string): string | undefined =>
    nearestName(name, Object.keys(runOptionChecks)) === undefined ? optionElsewhere(name) : undefined,
};

const resolvedMembers = {
  values: required(objectOption('flags that parseFlags or flagsOfOptions returned')),
  given: required(optionThat('a set of flags', (value) => value instanceof Set)),
  sources: required(optionThat('the sources of flags', (value) => value instanceof Map)),
};

/** Checks flags that `parseFlags` or `flagsOfOptions` returned. */
export const resolvedFlagsOption: OptionCheck<false> = objectOption(
  'flags that parseFlags or flagsOfOptions returned',
  resolvedMembers,
);

/**
 * Checks flags as `resolvedFlagsOption` does, and also the request from which they were resolved, because
 * this request is needed for adding flags.
 */
export const parsedFlagsOption: OptionCheck<false> = objectOption(
  'flags that parseFlags or flagsOfOptions returned',
  {
    ...resolvedMembers,
    request: required(
      objectOption('the request that flags were resolved from', {
        given: required(optionThat('the flags that were given', (value) => value instanceof Map)),
      }),
    ),
  },
);

/** Returns checks that an object has the given properties, and that each is an object. */
export const partsNamed = (names: readonly string[]): Readonly<Record<string, OptionCheck>> =>
  Object.fromEntries(names.map((name) => [name, required(objectOption('a part of a configuration'))]));

/** Checks that a training run's configuration is complete. */
export const configurationOption: OptionCheck<false> = objectOption(
  'a configuration that configure or validateConfiguration returned',
  {
    kind: required(modelKindOption),
    ...partsNamed(['model', 'training', 'optimizer', 'spikes', 'data', 'parallel', 'checkpoint', 'logging']),
  },
);

/** Checks the number of processes of a run. */
export const numProcessesOption: OptionCheck<false> = wholeNumberOption(1);
