import { flagFacts } from '../flags/flag-kinds.js';
import type { ArchitectureField, KnownValues } from './architecture-fields.js';

/** The value of a flag in the configuration of a model, and back. */
export function negatedIf(field: ArchitectureField, value: unknown): unknown {
  return field.isNegated && value !== undefined ? !value : value;
}

/** The flag's value of a model that does not state it; undefined where nothing gives one. */
export function unstatedValue(field: ArchitectureField, known: KnownValues): unknown {
  return field.otherwise === undefined ? flagFacts.get(field.flag)?.default : field.otherwise(known);
}
