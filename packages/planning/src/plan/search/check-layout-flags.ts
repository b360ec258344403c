import type { FlagName, ResolvedFlags } from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';

/** Flags that place layers: candidates place as many on every chunk. */
const placingLayers = [
  'num-layers-per-virtual-pipeline-stage',
  'pipeline-model-parallel-layout',
  'decoder-first-pipeline-num-layers',
  'decoder-last-pipeline-num-layers',
] as const satisfies readonly FlagName[];

export interface CheckLayoutFlagsOptions {
  /** The schedules that candidates have. */
  readonly schedules: readonly string[];
}

/**
 * Refuses flags of a layout that a search cannot leave as they are, and a run whose batch depends on its
 * layout.
 *
 * @throws ConfigurationError `MTL_PLAN_LAYOUT`; `MTL_FLAG_REQUIRED` without a global batch size
 */
export function checkLayoutFlags(
  { values, given }: ResolvedFlags,
  { schedules }: CheckLayoutFlagsOptions,
): void {
  for (const flag of placingLayers) {
    if (!given.has(flag)) continue;
    throw new ConfigurationError(
      'MTL_PLAN_LAYOUT',
      `a search cannot leave --${flag} ${values[flag]} as it is`,
      {
        expected: 'layouts with as many layers on every chunk',
        remedy: `leave --${flag} out, or plan that layout without --search`,
        details: { flag },
      },
    );
  }
  const schedule = values['pipeline-schedule'];
  if (schedule !== undefined && !schedules.includes(schedule)) {
    throw new ConfigurationError(
      'MTL_PLAN_LAYOUT',
      `a search cannot leave --pipeline-schedule ${schedule} as it is`,
      {
        expected: `one of ${schedules.join(', ')}`,
        remedy: 'leave --pipeline-schedule out, or plan that schedule without --search',
        details: { flag: 'pipeline-schedule' },
      },
    );
  }
  if (values['global-batch-size'] !== undefined) return;
  throw new ConfigurationError('MTL_FLAG_REQUIRED', '--global-batch-size is missing, which a search needs', {
    expected: 'the batch that all layouts train on: the default depends on the layout',
    remedy: 'pass --global-batch-size SAMPLES',
    details: { flags: ['--global-batch-size'] },
  });
}
