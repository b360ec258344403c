import { refusals } from '../../test/support/refusals.js';

refusals(
  [
    [
      '--num-attention-heads 5',
      1,
      'MTL_HEADS',
      /5 does not divide --hidden-size 64; expected 4 or 8 heads, or a hidden size of 60 or 65/,
    ],
    [
      '--max-position-embeddings 16',
      1,
      'MTL_SEQUENCE_LENGTH',
      /--seq-length 32 is longer than --max-position-embeddings 16/,
    ],
  ],
  { numAdvised: 2 },
);
