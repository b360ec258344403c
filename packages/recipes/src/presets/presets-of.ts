import type { Flags } from '../flags/flag-schema.js';
import type { ModelKind } from '../model-kind.js';
import { bertPresets } from './bert-presets.js';
import { presets } from './presets.js';

/**
 * The presets of a model by name, from the smallest to the largest, and the one that is in force when none is
 * named.
 */
export interface PresetsOfModel {
  readonly presets: Readonly<Record<string, Flags>>;
  readonly whenNoneIsNamed: string;
}

const all: Readonly<Record<ModelKind, PresetsOfModel>> = {
  gpt: { presets, whenNoneIsNamed: 'default' },
  bert: { presets: bertPresets, whenNoneIsNamed: 'bert-default' },
};

export function presetsOf(model: ModelKind): PresetsOfModel {
  return all[model];
}
