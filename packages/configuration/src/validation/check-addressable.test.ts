import { expect, it } from 'vitest';
import { configure, small } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';

it('leaves alone what some machine could hold', () => {
  // the largest model that has been announced, on one process
  const line =
    '--num-layers 128 --hidden-size 25600 --num-attention-heads 160 --seq-length 2048 --max-position-embeddings 2048';
  expect(() =>
    configure(`--preset none ${line} --micro-batch-size 1 --train-iters 1 --lr 1 --data-path bundled`),
  ).not.toThrow();
  // sharded over enough processes, a larger one
  const processes = '--tensor-model-parallel-size 8 --pipeline-model-parallel-size 8';
  const large = small.replace('--hidden-size 64', '--hidden-size 500000').replace('heads 4', 'heads 8');
  const larger = large.replace('--num-layers 4', '--num-layers 64');
  expect(() => configure(`${larger} ${processes}`, 64)).not.toThrow();
  expect(() => configure(larger)).toThrow(
    /num-layers 64, --hidden-size 500000: the layers would take 3\.1e\+15/,
  );
});

refusals(
  [
    [
      '--hidden-size 4000000000',
      1,
      'MTL_TOO_LARGE',
      /--num-layers 4, --hidden-size 4000000000: the layers would take .* bytes of a process; expected at most 1\.4e\+14/,
    ],
    [
      '--num-layers 10000000000',
      1,
      'MTL_TOO_LARGE',
      /--num-layers 10000000000, --hidden-size 64: the layers/,
    ],
    ['--ffn-hidden-size 100000000000', 1, 'MTL_TOO_LARGE', /--ffn-hidden-size 100000000000: the layers/],
    [
      '--max-position-embeddings 10000000000000',
      1,
      'MTL_TOO_LARGE',
      /--max-position-embeddings 10000000000000, .*the position embeddings/,
    ],
    ['--make-vocab-size-divisible-by 1000000000000', 1, 'MTL_TOO_LARGE', /the token embeddings/],
    [
      '--micro-batch-size 1000000000000',
      1,
      'MTL_TOO_LARGE',
      /--micro-batch-size 1000000000000, --seq-length 32, .*the activations of a micro-batch/,
    ],
  ],
  { numAdvised: 0 },
);
