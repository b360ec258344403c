import type { Flags } from '../flags/flag-schema.js';
import type { ModelKind } from '../model-kind.js';
import { bertPresets } from './bert-presets.js';
import { gptPresets } from './gpt-presets.js';

/**
 * The presets of a model by name, from the smallest to the largest, and the one for a command line that asks
 * for no model, data or checkpoint of its own.
 */
export interface PresetsOfModel {
  readonly presets: Readonly<Record<string, Flags>>;
  readonly whenNothingIsAsked: string;
}

const all: Readonly<Record<ModelKind, PresetsOfModel>> = {
  gpt: { presets: gptPresets, whenNothingIsAsked: 'default' },
  bert: { presets: bertPresets, whenNothingIsAsked: 'bert-default' },
};

export function presetsOf(model: ModelKind): PresetsOfModel {
  return all[model];
}
