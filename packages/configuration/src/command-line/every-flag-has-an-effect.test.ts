import { expect, it } from 'vitest';
import { listValues, plainRuns, resolveRun, runs } from '../../test/support/runs-of-all-flags.js';
import { type FlagName, flagNames } from '../schema/flag-schema.js';

/** Flags that change no field of a configuration, and the reason for each. */
const withoutField: Readonly<Partial<Record<FlagName, string>>> = {
  'distributed-backend': 'is read where a process joins its job, before there is a configuration',
  'dry-run': 'is read by the program, which then runs nothing',
  'num-processes': 'is read by a dry run',
  'use-checkpoint-args': 'asks for what --load always does',
  'mock-data': 'is all the data of its run: with other data it is refused',
  'muon-tp-mode': 'has one value, another name for it, and one that is refused',
};

/** Returns true if a value of the flag changes a field in at least one run's configuration. */
function hasEffect(name: FlagName): boolean {
  const values = listValues(name);
  return plainRuns.some(({ flags, worldSize, resolved }) =>
    values.some((value) => {
      const changed = resolveRun({ ...flags, values: { ...flags.values, [name]: value } }, worldSize);
      return changed !== undefined && JSON.stringify(changed) !== JSON.stringify(resolved);
    }),
  );
}

it('compares runs that are possible', () => {
  expect(runs.filter((_, index) => plainRuns[index]!.resolved === undefined)).toEqual([]);
});

it('changes a field of the configuration: a flag without effect would be accepted and do nothing', () => {
  const others = flagNames.filter((name) => !Object.hasOwn(withoutField, name));
  expect(others.filter((name) => !hasEffect(name))).toEqual([]);
});
