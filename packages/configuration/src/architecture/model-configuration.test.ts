import { refusals } from '../../test/support/refusals.js';

refusals(
  [
    [
      '--num-attention-heads 5',
      1,
      'MTL_HEADS',
      /5 does not divide --hidden-size 64; expected 4 or 8 heads, or a hidden size of 60 or 65/,
    ],
    ['--num-query-groups 2', 1, 'MTL_FLAG_NEEDS', /num-query-groups 2 has no effect.*group-query-attention/s],
    [
      '--group-query-attention --num-query-groups 3',
      1,
      'MTL_HEADS',
      /--num-query-groups 3 does not divide --num-attention-heads \d+; expected 2 or 4 groups/,
    ],
    [
      '--group-query-attention --num-query-groups 1 --tensor-model-parallel-size 2',
      2,
      'MTL_TENSOR_PARALLEL_SIZE',
      /does not divide --num-query-groups 1/,
    ],
    ['--window-size 4,4', 1, 'MTL_FLAG_VALUE', /--window-size 4,4.*expected L,0/],
    ['--swiglu --squared-relu', 1, 'MTL_FLAG_CONFLICT', /one activation/],
    ['--swiglu --gelu erf', 1, 'MTL_FLAG_CONFLICT', /one activation/],
    ['--qk-norm-whole-width', 1, 'MTL_FLAG_NEEDS', /expected --qk-layernorm/],
    [
      '--qk-layernorm --qk-norm-whole-width',
      1,
      'MTL_FLAG_NEEDS',
      /is of RMSNorm; expected --normalization RMSNorm/,
    ],
    [
      '--max-position-embeddings 16',
      1,
      'MTL_SEQUENCE_LENGTH',
      /--seq-length 32 is longer than --max-position-embeddings 16/,
    ],
  ],
  { numAdvised: 4 },
);
