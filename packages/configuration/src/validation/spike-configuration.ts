import { spikeFlags } from '../flags/training-flags.js';
import type { SpikeConfiguration } from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';

/**
 * Returns the settings of the reaction to spikes. A spike is a step whose loss or gradient norm is far above
 * recent values.
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
  notices.push(...flags.noticesOfUnused(unused[policy], `with --loss-spike-policy ${policy}`));
  const { rerunMode, ...values } = flags.values(spikeFlags);
  return rerunMode === 'disabled' ? values : { ...values, rerunMode };
}
