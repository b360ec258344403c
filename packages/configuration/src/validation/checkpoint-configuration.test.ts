import { describe, expect, it } from 'vitest';
import { configure, small } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';

describe('checkpointConfiguration', () => {
  it('waits for a checkpoint unless told to go on', () => {
    const flags = `${small} --save x --save-interval 5`;
    expect(configure(flags).checkpoint.asyncSave).toBe(false);
    expect(configure(`${flags} --async-save`).checkpoint.asyncSave).toBe(true);
  });

  it('starts optimizer and random state afresh when fine-tuning', () => {
    expect(configure(`${small} --load x --finetune`).checkpoint).toMatchObject({
      loadOptimizer: false,
      loadRng: false,
    });
    expect(configure(`${small} --load x --no-load-rng`).checkpoint).toMatchObject({
      loadOptimizer: true,
      loadRng: false,
    });
  });
});

refusals(
  [
    [
      '--moe-use-upcycling',
      1,
      'MTL_FLAG_NEEDS',
      /makes experts, and there are none; expected --num-experts N/,
    ],
    ['--num-experts 4 --moe-use-upcycling', 1, 'MTL_FLAG_NEEDS', /has no dense model to take layers from/],
    ['--num-experts 4 --moe-use-upcycling --load x', 1, 'MTL_FLAG_NEEDS', /expected --finetune/],
    [
      '--num-experts 4 --moe-use-upcycling --load x --finetune --moe-ffn-hidden-size 24',
      1,
      'MTL_FLAG_CONFLICT',
      /have their width/,
    ],
    [
      '--save-interval 5',
      1,
      'MTL_FLAG_NEEDS',
      /--save-interval 5 has nowhere to save to; expected --save DIR/,
    ],
    ['--keep-last 5', 1, 'MTL_FLAG_NEEDS', /expected --save DIR/],
    [
      '--async-save --save x',
      1,
      'MTL_FLAG_NEEDS',
      /--async-save would have nothing to write .*; expected --save-interval N/,
    ],
    ['--finetune', 1, 'MTL_FLAG_NEEDS', /--finetune has nothing to load; expected --load DIR/],
    ['--ckpt-step 5', 1, 'MTL_FLAG_NEEDS', /expected --load DIR/],
    [
      '--load x --override-opt_param-scheduler --use-checkpoint-opt_param-scheduler',
      1,
      'MTL_FLAG_CONFLICT',
      /the schedule is that of the command line or that of the checkpoint/,
    ],
    ['--no-load-optim', 1, 'MTL_FLAG_NEEDS', /expected --load DIR/],
    ['--load a --load-hf b', 1, 'MTL_FLAG_CONFLICT', /--load a and --load-hf b: weights come from one place/],
  ],
  { numAdvised: 0 },
);
