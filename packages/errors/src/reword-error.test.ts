import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { expect, it } from 'vitest';
import { formatError } from './format-error.js';
import { ConfigurationError, DataError } from './mtl-error.js';
import { changedError, namingFile, rewordError } from './reword-error.js';

const shout = (text: string): string => text.toUpperCase();

it('changes the texts of an error, and nothing else', () => {
  const error = new DataError('MTL_SPLIT', 'split 1', {
    expected: 'two',
    remedy: 'pass two',
    details: { split: 1 },
    exitCode: 1,
  });
  const reworded = rewordError(error, shout);
  expect(reworded).toBeInstanceOf(DataError);
  expect(reworded).toMatchObject({
    code: 'MTL_SPLIT',
    message: 'SPLIT 1',
    expected: 'TWO',
    remedy: 'PASS TWO',
    details: { split: 1 },
    exitCode: 1,
    cause: error,
  });
});

it('replaces the parts that are given, and no other', () => {
  const options = { expected: 'two', remedy: 'pass two', details: { split: 1 }, exitCode: 1 } as const;
  const error = new DataError('MTL_SPLIT', 'split 1', options);
  const parts = { code: 'MTL_SPLIT', message: 'split 1', ...options, cause: error };
  for (const changes of [{}, { exitCode: 2 }, { remedy: 'pass 2' }, { message: 'a: split 1' }] as const) {
    const changed = changedError(error, changes);
    expect(changed).toBeInstanceOf(DataError);
    expect(changed).toMatchObject({ ...parts, ...changes });
  }
  expect(changedError(new DataError('MTL_SPLIT', 'split 1'), { exitCode: 1 })).toMatchObject({
    expected: undefined,
    remedy: undefined,
    exitCode: 1,
  });
});

it('adds neither an expectation nor a remedy', () => {
  const reworded = rewordError(new ConfigurationError('MTL_SPLIT', 'split 1'), shout);
  expect(reworded).toMatchObject({ message: 'SPLIT 1', expected: undefined, remedy: undefined });
});

it('leaves an unforeseen error as it is', () => {
  const error = new Error('x');
  expect(rewordError(error, shout)).toBe(error);
});

const caught = (operation: () => unknown): unknown => {
  try {
    return operation();
  } catch (error) {
    return error;
  }
};

it('names the file of a full disk, whose error does not', () => {
  const full = (): never => {
    throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
  };
  const error = caught(() => namingFile('/data/run.bin', full));
  expect(error).toMatchObject({ code: 'ENOSPC', path: '/data/run.bin' });
  expect(formatError(error)).toBe(
    'error[MTL_SYSTEM]: /data/run.bin: ENOSPC: no space left on device, write\n' +
      '  remedy: free space on that file system, or write to another one',
  );
});

it('names the file of a descriptor', () => {
  const descriptor = openSync('/dev/null', 'r');
  const error = caught(() => namingFile('/dev/null', () => writeSync(descriptor, 'x')));
  closeSync(descriptor);
  expect(error).toMatchObject({ code: 'EBADF', message: '/dev/null: EBADF: bad file descriptor, write' });
});

it('leaves results and errors that say where alone', () => {
  expect(namingFile('a', () => 7)).toBe(7);
  const error = caught(() => namingFile('a', () => readFileSync('/does/not/exist')));
  expect(error).toMatchObject({ code: 'ENOENT', path: '/does/not/exist' });
  const other = new TypeError('no system error');
  expect(
    caught(() =>
      namingFile('a', () => {
        throw other;
      }),
    ),
  ).toBe(other);
});
