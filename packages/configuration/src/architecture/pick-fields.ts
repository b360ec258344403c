import type { TransformerConfiguration } from '@mtl/models';
import type { ArchitectureField } from './architecture-field.js';
import { fieldsOf } from './fields-of.js';

/** The fields of a model that decide one of these, such as how it learns. */
export function pickFields(
  model: TransformerConfiguration,
  decides: ReadonlyArray<ArchitectureField['decides']>,
): Partial<TransformerConfiguration> {
  const keys = fieldsOf().flatMap(([, field]) => (decides.includes(field.decides) ? [field.key] : []));
  return Object.fromEntries(Object.entries(model).filter(([key]) => keys.includes(key)));
}
