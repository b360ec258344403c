import { describe, expect, it } from 'vitest';
import { planCommand } from '../commands/plan/plan.js';
import { refuseOwnOptions } from './command-line-error.js';

describe('refuseOwnOptions', () => {
  it.each(['--svg', '--json', '--profile', '--memory=80GiB'])(
    'refuses %s among the flags of training',
    (word) => {
      const flag = word.split('=')[0]!;
      expect(() => refuseOwnOptions(['--preset', 'default', word, 'f'], planCommand())).toThrow(
        expect.objectContaining({
          code: 'MTL_FLAG_ARGUMENT',
          message: `${flag} is a flag of plan, not of the training run`,
          remedy: expect.stringContaining('put it before --'),
        }),
      );
    },
  );

  it('leaves flags that both have, and unknown ones', () => {
    const flags = ['--num-processes', '8', '--debug', '--bf17', '-1', 'svg'];
    expect(refuseOwnOptions(flags, planCommand())).toBeUndefined();
  });
});
