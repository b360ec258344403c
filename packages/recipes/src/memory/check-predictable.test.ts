import { parseFlags, validateConfiguration } from '@mtl/configuration';
import { expect, it } from 'vitest';
import { checkPredictable } from './check-predictable.js';
import { memoryShapeOf } from './memory-shape-of.js';

const configured = (flags: string) =>
  validateConfiguration(
    parseFlags(['--preset', 'char-10m', ...flags.split(' ').filter((word) => word !== '')]),
  );

it('accepts the blocks of GPT-2', () => {
  checkPredictable(configured(''));
  checkPredictable(configured('--untie-embeddings-and-output-weights'));
});

it.each([
  ['--group-query-attention --num-query-groups 2', /groups of heads/],
  ['--kv-channels 32', /heads of another size/],
  ['--disable-bias-linear', /linear layers without biases/],
  ['--position-embedding-type none', /no table of positions/],
])('refuses %s', (flags, message) => {
  expect(() => memoryShapeOf(configured(flags), 256)).toThrow(
    expect.objectContaining({ code: 'MTL_MEMORY_BLOCKS', message: expect.stringMatching(message) as string }),
  );
});
