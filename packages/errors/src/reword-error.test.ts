import { expect, it } from 'vitest';
import { ConfigurationError, DataError, rewordError } from './index.js';

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

it('adds neither an expectation nor a remedy', () => {
  const reworded = rewordError(new ConfigurationError('MTL_SPLIT', 'split 1'), shout);
  expect(reworded).toMatchObject({ message: 'SPLIT 1', expected: undefined, remedy: undefined });
});

it('leaves an unforeseen error as it is', () => {
  const error = new Error('x');
  expect(rewordError(error, shout)).toBe(error);
});
