import { ConfigurationError, nearestName } from '@mtl/errors';
import { type ModelKind, modelKinds } from '../architecture/architecture-field.js';
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
import {
  flagsOfTopic,
  inWordsOfOptions,
  type OptionTopic,
  optionTopics,
  type RunOptions,
} from './run-options.js';

/**
 * Returns the flags that options stand for, laid over preset and defaults: what `parseFlags` makes of a
 * command line.
 *
 * @throws ConfigurationError `MTL_OPTION` for a topic or an option that there is not, with the nearest one;
 *   `MTL_FLAG_VALUE` for a value out of range; `MTL_FLAG_MODEL` for one that the other kind of
 *   model has; `MTL_PRESET`; each in the words of options
 */
export function flagsOfOptions(options: RunOptions): ParsedFlags {
  const { preset, ...topics } = options;
  const { kind: model = 'gpt' } = options.model ?? {};
  if (!modelKinds.includes(model)) throw wrongKind(model);
  const given = new Map<FlagName, unknown>();
  try {
    for (const [topic, values] of Object.entries(topics)) readTopic(topic, values, given);
    // options that hold all values hold the defaults of the other model, too
    checkModelOfFlags({ model, values: given, where: 'in the options', allowDefaults: true });
    const request = {
      given,
      givenBy: 'options',
      model,
      ...(preset === undefined ? {} : { preset }),
    } as const;
    return { ...resolveFlags(request), help: false, debug: false, notices: [], argv: [], request };
  } catch (error) {
    throw inWordsOfOptions(error);
  }
}

function readTopic(topic: string, values: unknown, given: Map<FlagName, unknown>): void {
  const flags = flagsOfTopic.get(topic as OptionTopic);
  if (flags === undefined) {
    throw new ConfigurationError('MTL_OPTION', `options of a run have no topic ${topic}`, {
      expected: [...optionTopics, 'preset'].join(', '),
      ...remedyOf(nearestName(topic, [...optionTopics, 'preset'])),
      details: { topic },
    });
  }
  if (values === undefined) return;
  if (typeof values !== 'object' || values === null) {
    throw new ConfigurationError('MTL_OPTION', `${topic} is ${JSON.stringify(values)}`, {
      expected: `an object of options: { ${[...flags.keys()].slice(0, 3).join(', ')} ... }`,
      details: { topic },
    });
  }
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined || (topic === 'model' && key === 'kind')) continue;
    const name = flags.get(key);
    if (name === undefined) throw unknownOption(topic, key);
    // also undefined, which takes the value of a preset away: numExperts 0
    given.set(name, readFlagValue({ name, value, where: 'in the options' }));
  }
}

function unknownOption(topic: string, key: string): ConfigurationError {
  const elsewhere = optionTopics.filter((other) => flagsOfTopic.get(other)!.has(key));
  const own = [...flagsOfTopic.get(topic as OptionTopic)!.keys()];
  const near = elsewhere[0] === undefined ? nearestName(key, own) : undefined;
  const meant = elsewhere[0] === undefined ? near && `${topic}.${near}` : `${elsewhere[0]}.${key}`;
  return new ConfigurationError('MTL_OPTION', `${topic}.${key} is no option of a run`, {
    ...(meant === undefined ? {} : { expected: meant }),
    ...remedyOf(meant),
    details: { topic, option: key, ...(meant === undefined ? {} : { near: meant }) },
  });
}

const remedyOf = (meant: string | undefined): { readonly remedy?: string } =>
  meant === undefined ? {} : { remedy: `write ${meant}` };

function wrongKind(kind: unknown): ConfigurationError {
  return new ConfigurationError('MTL_OPTION', `model.kind is ${JSON.stringify(kind)}`, {
    expected: modelKinds.join(' or '),
    details: { kind: kind as ModelKind },
  });
}

/**
 * Returns the configuration of a training run that options describe: every value in force, checked.
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
