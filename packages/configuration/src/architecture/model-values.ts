import { flagFacts } from '../flags/flag-kinds.js';
import type { ArchitectureField, KnownValues } from './architecture-field.js';

/** The value of a flag in the configuration of a model. */
export function modelValue({ isNegated, asModel }: ArchitectureField, value: unknown): unknown {
  if (value === undefined) return undefined;
  return asModel === undefined ? (isNegated ? !value : value) : asModel(value);
}

/** The flag's value of that in the configuration of a model. */
export function flagValue({ isNegated, asFlag }: ArchitectureField, value: unknown): unknown {
  if (value === undefined) return undefined;
  return asFlag === undefined ? (isNegated ? !value : value) : asFlag(value);
}

/** The flag's value of a model that does not state it; undefined where nothing gives one. */
export function unstatedValue(field: ArchitectureField, known: KnownValues): unknown {
  return field.otherwise === undefined ? flagFacts.get(field.flag)?.default : field.otherwise(known);
}
