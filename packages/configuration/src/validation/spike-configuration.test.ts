import { describe, expect, it } from 'vitest';
import { configure, small } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';

describe('spikeConfiguration', () => {
  it('reports spikes unless told otherwise', () => {
    expect(configure(small).spikes).toEqual({ policy: 'report', window: 100, factor: 40, limit: 10 });
    const flags =
      '--loss-spike-policy skip --loss-spike-window 5 --grad-norm-skip-threshold 3 --rerun-mode report_stats';
    expect(configure(`${small} ${flags}`).spikes).toMatchObject({
      policy: 'skip',
      window: 5,
      gradientNormSkipThreshold: 3,
      rerunMode: 'report_stats',
    });
  });

  it('says which flags make no difference', () => {
    const { notices } = configure(`${small} --loss-spike-policy ignore --loss-spike-factor 5`);
    expect(notices).toEqual(['--loss-spike-factor has no effect with --loss-spike-policy ignore']);
    expect(configure(`${small} --loss-spike-limit 5`).notices).toEqual([
      '--loss-spike-limit has no effect with --loss-spike-policy report',
    ]);
  });
});

refusals(
  [
    ['--loss-spike-policy roll-back', 1, 'MTL_FLAG_NEEDS', /expected --save-interval N/],
    ['--loss-spike-window 0', 1, 'MTL_FLAG_VALUE', /loss-spike-window/],
    ['--grad-norm-skip-threshold 0', 1, 'MTL_FLAG_VALUE', /grad-norm-skip-threshold/],
  ],
  { numAdvised: 0 },
);
