import { expect, it } from 'vitest';
import { configure, small } from '../../test/support/configure.js';
import { type FlagName, findFlagFacts, flagNames, isFlagName } from '../schema/flag-schema.js';

const needs = flagNames.flatMap((name) => {
  const needed = findFlagFacts(name).needs?.[0];
  return needed === undefined ? [] : [[name, needed as FlagName] as const];
});
const excludes = flagNames.flatMap((name) =>
  Object.keys(findFlagFacts(name).excludes ?? {}).map((other) => [name, other as FlagName] as const),
);

const line = `${small} --tokenizer-type ByteLevelTokenizer`;
const withoutData = line.replace(' --data-path bundled', '');

const values = { integer: '2', number: '0.5', boolean: '', integers: '1 2' } as const;

/** Returns a flag with a value, as on a command line. */
function write(name: FlagName): string {
  const { kind } = findFlagFacts(name);
  return `--${name} ${values[kind as keyof typeof values] ?? 'x'}`.trim();
}

/** Returns a flag, after the flags that it needs. */
function writeWithNeeded(name: FlagName): string {
  const needed = findFlagFacts(name).needs?.[0] as FlagName | undefined;
  return needed === undefined ? write(name) : `${writeWithNeeded(needed)} ${write(name)}`;
}

it.each(needs)('--%s needs --%s', (name, needed) => {
  expect(isFlagName(needed)).toBe(true);
  expect(() => configure(`${line} ${write(name)}`)).toThrow(
    expect.objectContaining({
      code: 'MTL_FLAG_NEEDS',
      message: expect.stringContaining(write(name)),
      expected: expect.stringMatching(new RegExp(`^--${needed}( |$)`)),
    }),
  );
});

it.each(excludes)('--%s excludes --%s', (name, other) => {
  expect(isFlagName(other)).toBe(true);
  const both = [writeWithNeeded(name), writeWithNeeded(other)].join(' ');
  expect(() => configure(`${both.includes('--train-data') ? withoutData : line} ${both}`)).toThrow(
    expect.objectContaining({ code: 'MTL_FLAG_CONFLICT', details: { flags: [name, other] } }),
  );
});

it('is stated by many flags', () => {
  expect(needs.length).toBeGreaterThan(20);
  expect(excludes.length).toBeGreaterThan(8);
});
