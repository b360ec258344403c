import type { SpikeConfiguration } from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';

/**
 * What follows steps that are far outside of the recent distribution.
 *
 * @throws ConfigurationError `MTL_FLAG_NEEDS`
 */
export function spikeConfiguration({
  flags,
  notices,
}: {
  readonly flags: FlagReader;
  readonly notices: string[];
}): SpikeConfiguration {
  const policy = flags.required('loss-spike-policy');
  if (policy === 'roll-back' && flags.get('save-interval') === undefined) {
    flags.needs('loss-spike-policy', '--save-interval N', 'has no checkpoint to go back to');
  }
  const unused = {
    ignore: ['loss-spike-window', 'loss-spike-factor', 'loss-spike-limit'],
    report: ['loss-spike-limit'],
    skip: [],
    'roll-back': [],
  } as const;
  for (const name of unused[policy]) {
    if (flags.isGiven(name)) notices.push(`--${name} has no effect with --loss-spike-policy ${policy}`);
  }
  const rerunMode = flags.required('rerun-mode');
  const threshold = flags.get('grad-norm-skip-threshold');
  return {
    policy,
    window: flags.required('loss-spike-window'),
    factor: flags.required('loss-spike-factor'),
    limit: flags.required('loss-spike-limit'),
    ...(rerunMode === 'disabled' ? {} : { rerunMode }),
    ...(threshold === undefined ? {} : { gradientNormSkipThreshold: threshold }),
  };
}
