import { describe, expect, expectTypeOf, it } from 'vitest';
import { catchError, problemsOfOptions, takes } from '../../test/support/index.js';
import {
  checkArgument,
  checkOptions,
  choiceOption,
  describeValue,
  functionOption,
  groupOption,
  listOption,
  numberOption,
  type OptionCheck,
  type OptionChecks,
  objectOption,
  required,
  switchOption,
  textOption,
  wholeNumberOption,
} from './option-checks.js';

interface Options {
  readonly path: string;
  readonly size?: number;
  readonly rate?: number;
  readonly kind?: 'small' | 'large';
  readonly isFast?: boolean;
  readonly names?: readonly string[];
  readonly group?: { readonly inner?: number };
  readonly stream?: { write(text: string): void };
  onEnd?(): void;
}

const checks: OptionChecks<Options> = {
  path: required(textOption),
  size: wholeNumberOption(1, 8),
  rate: numberOption,
  kind: choiceOption(['small', 'large']),
  isFast: switchOption,
  names: listOption(textOption, { what: 'an array of names' }),
  group: groupOption({ inner: wholeNumberOption(0) }, { of: 'a group' }),
  stream: objectOption('a stream', { write: required(functionOption) }),
  onEnd: functionOption,
};

const call = (options: unknown): void => checkOptions(options, { of: 'a test', checks });

describe('checkOptions', () => {
  it('finds every value of another type, with its path', async () => {
    const problems = await problemsOfOptions({
      name: 'call',
      call,
      right: { path: 'a' },
      last: 'onEnd',
      accepts: {
        path: takes.text,
        size: (value) => value === 5,
        rate: takes.number,
        kind: takes.nothing,
        isFast: takes.boolean,
        names: (value) => takes.arrayOfTexts(value),
        group: takes.emptyObject,
        'group.inner': (value) => value === 5,
        stream: takes.nothing,
        onEnd: takes.function,
      },
    });
    expect(problems).toEqual([]);
  });

  it.each([
    [{}, 'path is missing', 'a text'],
    [{ path: 'a', size: '5' }, 'size is "5"', 'a whole number, 1 to 8'],
    [{ path: 'a', kind: 'smal' }, 'kind is "smal"', 'small, large'],
    [{ path: 'a', names: ['b', 5] }, 'names[1] is 5', 'a text'],
    [{ path: 'a', group: { iner: 1 } }, 'group.iner is no option of a group', 'group.inner'],
    [{ path: 'a', stream: {} }, 'stream.write is missing', 'a function'],
    [{ path: 'a', onEnds: 1 }, 'onEnds is no option of a test', 'onEnd'],
    [
      { path: 'a', colour: 1 },
      'colour is no option of a test',
      '{ path, size, rate, kind, isFast, names, group, stream, onEnd }',
    ],
    [new Map(), 'the value for the options of a test is an object of Map', '{ path, size'],
  ])('refuses %j', async (options, message, expected) => {
    expect(await catchError(() => call(options))).toMatchObject({
      code: 'MTL_OPTION',
      exitCode: 2,
      message,
      expected: expect.stringContaining(expected),
    });
  });

  it('takes objects of another realm and without a prototype, and leaves out what is undefined', () => {
    call({ path: 'a', size: undefined, group: undefined });
    call(Object.assign(Object.create(null), { path: 'a' }));
  });

  it('tells that a choice is missing, as it does of other options', async () => {
    const check = required(choiceOption(['small', 'large']));
    expect(await catchError(() => checkArgument(undefined, { name: 'kind', check }))).toMatchObject({
      message: 'kind is missing',
      expected: 'small, large',
      details: { option: 'kind' },
    });
    const near = await catchError(() => checkArgument('smal', { name: 'kind', check }));
    expect(near).toMatchObject({ message: 'kind is "smal"', remedy: 'write small' });
  });

  it('has another code where a function asks for it', async () => {
    const error = await catchError(() =>
      checkOptions({ path: 5 }, { of: 'a test', code: 'MTL_TEST', checks }),
    );
    expect(error).toMatchObject({ code: 'MTL_TEST', details: { option: 'path' } });
  });

  it('has a check for every option, those that are required marked', () => {
    expectTypeOf<OptionChecks<{ readonly a?: number }>>().toEqualTypeOf<{ readonly a: OptionCheck<false> }>();
    expectTypeOf<OptionChecks<{ readonly a: number }>>().toEqualTypeOf<{ readonly a: OptionCheck<true> }>();
  });

  it.each([
    ['a'.repeat(80), `"${'a'.repeat(60)}..."`],
    [5n, '5n'],
    [Symbol('a'), 'Symbol(a)'],
    [[], 'an empty array'],
    [[1, 2], 'an array of 2'],
    [{}, 'an empty object'],
    [{ a: 1 }, 'an object'],
    [new Date(0), 'an object of Date'],
    [Object.create({ constructor: 5 }), 'an object of another class'],
  ])('describes a value: %s', (value, text) => {
    expect(describeValue(value)).toBe(text);
  });
});
