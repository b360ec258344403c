import { expect, it } from 'vitest';
import { listValues, plainRuns, type Resolved, resolveRun } from '../../test/support/runs-of-all-flags.js';
import { flagsElsewhere, flagsOfObjects } from '../flags/flags-elsewhere.js';
import { optionName, renamedOptions } from '../flags/option-names.js';
import { type FlagName, flagGroups, flagNames } from '../schema/flag-schema.js';
import { findOption, flagsOfTopic, optionTopics } from './run-options.js';

/** Returns the value at a path in a configuration, as a JSON string. */
function textAt(resolved: Resolved | undefined, path: string): string {
  const keys = path.split('.');
  const value = keys.reduce<unknown>(
    (part, key) => (part as Readonly<Record<string, unknown>> | undefined)?.[key],
    resolved,
  );
  return String(value);
}

/**
 * The names of configuration objects that are not named like the topic of their flags, keyed by the title of
 * the flag group.
 */
const objectOfGroup: Readonly<Record<string, string>> = {
  BERT: 'bert',
  'Device and parallelism': 'parallel',
};

const objects: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    flagGroups.flatMap(({ title, topic, flags }) =>
      Object.keys(flags).map((flag) => [flag, objectOfGroup[title] ?? topic ?? '']),
    ),
  ),
  ...flagsOfObjects,
};

/**
 * Returns the paths at which a flag's value may be. If a value is in a nested object, its name need not
 * repeat the object's name.
 */
function listPaths(flag: FlagName): readonly string[] {
  const [object, name] = [objects[flag]!, optionName(flag)];
  const ownName = object.split('.').at(-1)!;
  const rest = name.startsWith(ownName) ? name.slice(ownName.length) : name;
  return [`${object}.${name}`, `${object}.${rest.charAt(0).toLowerCase()}${rest.slice(1)}`];
}

/**
 * Returns true if a changed value of the flag appears in a run's configuration under the name of the flag's
 * option.
 */
function isUnderItsName(flag: FlagName): boolean {
  const paths = listPaths(flag);
  return listValues(flag).some((value) =>
    plainRuns.some(({ flags, worldSize, resolved }) => {
      const changed = resolveRun({ ...flags, values: { ...flags.values, [flag]: value } }, worldSize);
      return paths.some(
        (path) => textAt(changed, path) === String(value) && textAt(resolved, path) !== String(value),
      );
    }),
  );
}

it('is the key of the value in the configuration, or has a reason not to be', () => {
  const options = flagNames.filter((name) => findOption(name) !== undefined);
  expect(options.filter((name) => !isUnderItsName(name))).toEqual(
    options.filter((name) => Object.hasOwn(flagsElsewhere, name)),
  );
});

it('names only flags as parts of objects, or elsewhere', () => {
  const names = [...Object.keys(flagsOfObjects), ...Object.keys(flagsElsewhere)];
  expect(names.filter((name) => findOption(name) === undefined)).toEqual([]);
  expect(new Set(names).size).toBe(names.length);
});

it('was renamed from the name of a flag, to a name that no other option has or had', () => {
  const names = optionTopics.flatMap((topic) => [...flagsOfTopic.get(topic)!.keys()]);
  for (const [former, name] of Object.entries(renamedOptions)) {
    expect(names.filter((each) => each === name)).toEqual([name]);
    expect(names).not.toContain(former);
  }
});
