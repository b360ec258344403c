import { ConfigurationError, nearestName } from '@mtl/errors';
import type { ModelKind } from '../architecture/architecture-field.js';
import type { Flags } from '../schema/flag-schema.js';
import { type BertPresetName, bertPresets } from './bert-presets.js';
import { type GptPresetName, gptPresets } from './gpt-presets.js';

/** The names of all presets, and `none` for the flags' defaults only. */
export type PresetName = GptPresetName | BertPresetName | 'none';

/**
 * The presets for models of one kind, by name, from the smallest to the largest. `whenNothingIsAsked` is the
 * preset for a command line without a model, data or checkpoint.
 */
export interface PresetsOfModel {
  readonly presets: Readonly<Record<string, Flags>>;
  readonly whenNothingIsAsked: PresetName;
}

const all: Readonly<Record<ModelKind, PresetsOfModel>> = {
  gpt: { presets: gptPresets, whenNothingIsAsked: 'default' },
  bert: { presets: bertPresets, whenNothingIsAsked: 'bert-default' },
};

export function findPresets(model: ModelKind): PresetsOfModel {
  return all[model];
}

/**
 * Returns the flags that a preset sets; no flags for `none`.
 *
 * @throws ConfigurationError `MTL_PRESET` for an unknown preset, whose message contains the nearest name.
 */
export function presetFlags(name: string, model: ModelKind): Flags {
  if (name === 'none') return {};
  const { presets } = findPresets(model);
  if (Object.hasOwn(presets, name)) return presets[name]!;
  const names = Object.keys(presets);
  const near = nearestName(name, names);
  const other = model === 'gpt' ? 'bert' : 'gpt';
  const isOfOther = Object.hasOwn(findPresets(other).presets, name);
  const what = isOfOther ? `${name} is a preset of ${other.toUpperCase()}` : `unknown preset ${name}`;
  throw new ConfigurationError('MTL_PRESET', what, {
    expected: `${names.join(', ')} or none`,
    ...(near === undefined ? {} : { remedy: `pass --preset ${near}` }),
    details: { preset: name, near },
  });
}
