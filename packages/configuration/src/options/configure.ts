import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import { type ValidateConfigurationOptions, validateConfiguration } from '../validate-configuration.js';
import { flagsOfOptions } from './flags-of-options.js';
import { inWordsOfOptions } from './in-words-of-options.js';
import type { RunOptions } from './run-options.js';

/**
 * The configuration of a training run that options describe: every value in force, checked.
 *
 * ```ts
 * configure({ preset: 'char-10m', optimizer: { lr: 1e-3 }, training: { trainIters: 100 } });
 * ```
 *
 * @throws ConfigurationError those of `flagsOfOptions` and `validateConfiguration`, in the words of options
 */
export function configure(
  options: RunOptions = {},
  how: ValidateConfigurationOptions = {},
): PretrainingConfiguration {
  const flags = flagsOfOptions(options);
  try {
    return validateConfiguration(flags, how);
  } catch (error) {
    throw inWordsOfOptions(error);
  }
}
