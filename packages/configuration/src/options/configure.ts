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
 * Returns the flags that options stand for, on top of preset and defaults: the same result as `parseFlags` of
 * a command line.
 *
 * @throws ConfigurationError `MTL_OPTION` for an unknown topic or option, with the nearest one, and for a
 *   topic that is no object; `MTL_FLAG_VALUE` for a value of another type or out of range; `MTL_FLAG_MODEL`
 *   for an option of the other kind of model; `MTL_PRESET`; each in the words of options
 */
export function flagsOfOptions(options: RunOptions): ParsedFlags {
  checkOptions(options, { ...ofRun, checks: runOptionChecks });
  const { preset } = options;
  const { kind: model = 'gpt' } = options.model ?? {};
  try {
    const { given, notices } = givenIn(options);
    // complete options contain the defaults of the other model's flags, too
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

/** Returns the flags that options stand for, in the spelling that is kept; notices about former names. */
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
      // undefined is kept too, since it removes a preset's value: numExperts 0
      given.set(name, readFlagValue({ name, value, where: 'in the options', isTyped: true }));
    }
  }
  return { given, notices };
}

/**
 * Returns the checked configuration of a training run that options describe.
 *
 * ```ts configure({ preset: 'char-10m', optimizer: { maxLearningRate: 1e-3 } }); ```
 *
 * @throws ConfigurationError with the codes of `flagsOfOptions` and `validateConfiguration`, in the words of
 *   options
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
