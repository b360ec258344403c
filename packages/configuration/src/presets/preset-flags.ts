import { ConfigurationError, nearestName } from '@mtl/errors';
import type { Flags } from '../flags/flag-schema.js';
import type { ModelKind } from '../model-kind.js';
import { presetsOf } from './presets-of.js';

/**
 * The flags that a preset of a model sets; none for `none`.
 *
 * @throws ConfigurationError `MTL_PRESET` for an unknown preset, with the nearest name.
 */
export function presetFlags(name: string, model: ModelKind): Flags {
  if (name === 'none') return {};
  const { presets } = presetsOf(model);
  if (Object.hasOwn(presets, name)) return presets[name]!;
  const names = Object.keys(presets);
  const near = nearestName(name, names);
  const other = model === 'gpt' ? 'bert' : 'gpt';
  const isOfOther = Object.hasOwn(presetsOf(other).presets, name);
  const what = isOfOther ? `${name} is a preset of ${other.toUpperCase()}` : `unknown preset ${name}`;
  throw new ConfigurationError('MTL_PRESET', what, {
    expected: `${names.join(', ')} or none`,
    ...(near === undefined ? {} : { remedy: `pass --preset ${near}` }),
    details: { preset: name, near },
  });
}
