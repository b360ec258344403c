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

it('counts experts where layers have them, and as they are spread', () => {
  const line = `${small} --num-experts 8000000000 --disable-bias-linear --global-batch-size 8`;
  const spread = (layers: string) => () => configure(`${line} --moe-layer-freq ${layers}`, 4);
  expect(spread('1')).toThrow(/--num-experts 8000000000.*: the experts would take 1\.7e\+16 bytes/);
  expect(spread('4')).toThrow(/the experts would take 4\.2e\+15 bytes/);
  expect(spread('[0,0,0,1]')).toThrow(/the experts would take 4\.2e\+15 bytes/);
  expect(spread('4 --expert-model-parallel-size 4')).toThrow(/the experts would take 1\.0e\+15 bytes/);
  expect(spread('4 --expert-tensor-parallel-size 2')).toThrow(/the experts would take 2\.1e\+15 bytes/);
  // a width that no layer has takes nothing
  const wide = '--num-experts 8 --ffn-hidden-size 100000000000 --moe-ffn-hidden-size 64';
  expect(() => configure(`${small} ${wide}`)).not.toThrow();
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
