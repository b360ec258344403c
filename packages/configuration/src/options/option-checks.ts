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
 * Makes the check of a flag's option from the flag's schema.
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

/** Makes the checks of options, by their names, of flags with schemas. */
export function checksOfFlags(
  flags: FlagFragment,
  reword: (error: unknown) => unknown,
): Readonly<Record<string, OptionCheck<false>>> {
  return Object.fromEntries(
    Object.entries(flags).map(([name, schema]) => [camelCase(name), checkOfFlag(name, { schema, reword })]),
  );
}

/** Values of flags by their names: a program's values for flags that have no other source. */
export const flagValuesOption: OptionCheck<false> = groupOption(
  Object.fromEntries(
    flagNames.map((name) => [
      name,
      checkOfFlag(name, { schema: findSchema(name), reword: (error) => error }),
    ]),
  ),
  { of: 'the flags of a run' },
);

/** The model that flags describe. */
export const modelKindOption: OptionCheck<false> = choiceOption(modelKinds);

/** The name of a preset; which presets there are depends on the model. */
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

/** Returns the option of this name in another topic, or the flag of this name. */
function optionElsewhere(name: string, topic?: OptionTopic): string | undefined {
  const key = optionName(name);
  const own = topic === undefined ? undefined : flagsOfTopic.get(topic)!.get(key);
  if (own !== undefined) return findOption(own);
  const found = optionTopics.find((each) => flagsOfTopic.get(each)!.has(key));
  return found && `${found}.${key}`;
}

/** Checks of the options of a run, by topic, made from the schema of its flags. */
export const runOptionChecks = {
  ...Object.fromEntries(optionTopics.map((topic) => [topic, topicOption(topic)])),
  preset: presetOption,
} as OptionChecks<RunOptions>;

/**
 * Words of errors for the things that have these options, and a function that finds the option that a program
 * means by an unknown name.
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

/** Flags that `parseFlags` or `flagsOfOptions` has returned. */
export const resolvedFlagsOption: OptionCheck<false> = objectOption(
  'flags that parseFlags or flagsOfOptions returned',
  resolvedMembers,
);

/**
 * Flags like `resolvedFlagsOption`, together with the request from which they were resolved, so that flags
 * can be added.
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

/** Returns checks that an object has these parts. */
export const partsNamed = (names: readonly string[]): Readonly<Record<string, OptionCheck>> =>
  Object.fromEntries(names.map((name) => [name, required(objectOption('a part of a configuration'))]));

/** A configuration of a training run, with all its parts. */
export const configurationOption: OptionCheck<false> = objectOption(
  'a configuration that configure or validateConfiguration returned',
  {
    kind: required(modelKindOption),
    ...partsNamed(['model', 'training', 'optimizer', 'spikes', 'data', 'parallel', 'checkpoint', 'logging']),
  },
);

/** The number of processes of a run. */
export const numProcessesOption: OptionCheck<false> = wholeNumberOption(1);
