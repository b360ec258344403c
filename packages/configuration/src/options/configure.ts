import { checkOptions } from '@mtl/errors/options';
import type { ParsedFlags } from '../command-line/parse-flags.js';
import { resolveFlags } from '../command-line/resolve-flags.js';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import type { FlagName } from '../schema/flag-schema.js';
import { readFlagValue } from '../schema/flag-value.js';
import { checkModelOfFlags } from '../schema/model-of-flag.js';
import {
  type ValidateConfigurationOptions,
  validateConfiguration,
} from '../validation/validate-configuration.js';
import { ofRun, runOptionChecks } from './option-checks.js';
import {
  flagsOfTopic,
  inWordsOfOptions,
  optionTopics,
  type RunOptions,
  type TopicValues,
  withCurrentNames,
} from './run-options.js';

/**
 * Returns the flags for a run's options, completed with the preset and the defaults. The result equals the
 * result of `parseFlags` for a command line.
 *
 * @throws ConfigurationError `MTL_OPTION` for a topic that is not an object, and for an unknown topic or
 *   option, whose message contains the nearest known name; `MTL_FLAG_VALUE` for a value of the wrong type or
 *   out of range; `MTL_FLAG_MODEL` for an option that only the other kind of model has; `MTL_PRESET`. The
 *   errors use the names of options.
 */
export function flagsOfOptions(options: RunOptions): ParsedFlags {
  checkOptions(options, { ...ofRun, checks: runOptionChecks });
  const { preset } = options;
  const { kind: model = 'gpt' } = options.model ?? {};
  try {
    const { given, notices } = givenIn(options);
    // a complete set of options also contains the defaults of flags for other kinds of model
    checkModelOfFlags({ model, values: given, where: 'in the options', allowDefaults: true });
    const request = {
      given,
      givenBy: 'options',
      model,
      ...(preset === undefined ? {} : { preset }),
    } as const;
    return { ...resolveFlags(request), help: false, debug: false, notices, argv: [], request };
  } catch (error) {
    throw inWordsOfOptions(error);
  }
}

/** Returns the flags for options, with values in canonical form, and notices about deprecated names. */
function givenIn(options: RunOptions): {
  readonly given: ReadonlyMap<FlagName, unknown>;
  readonly notices: readonly string[];
} {
  const given = new Map<FlagName, unknown>();
  const notices: string[] = [];
  for (const topic of optionTopics) {
    const { values, notices: renamed } = withCurrentNames(topic, (options[topic] ?? {}) as TopicValues);
    notices.push(...renamed);
    for (const [key, name] of flagsOfTopic.get(topic)!) {
      const value = values[key];
      if (value === undefined) continue;
      // a value of undefined is stored as well, because it removes a preset's value, as numExperts 0 does
      given.set(name, readFlagValue({ name, value, where: 'in the options', isTyped: true }));
    }
  }
  return { given, notices };
}

/**
 * Returns the checked configuration of the training run that options describe.
 *
 * ```ts
 * configure({ preset: 'char-10m', optimizer: { maxLearningRate: 1e-3 } });
 * ```
 *
 * @throws ConfigurationError with the codes of `flagsOfOptions` and `validateConfiguration`. The errors use
 *   the names of options.
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
