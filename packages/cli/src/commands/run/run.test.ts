import { expect, it } from 'vitest';
import { withoutBrackets } from './run.js';

it.each([
  ['[::1]', '::1'],
  ['::1', '::1'],
  ['10.0.0.1', '10.0.0.1'],
])('takes %s as an address of host 0', (given, address) => {
  expect(withoutBrackets(given)).toBe(address);
});
