import type { FlagReader } from '../validation/flag-reader.js';
import { fieldsOf } from './fields-of.js';
import { negatedIf } from './model-values.js';

/**
 * The architecture in the configuration of a run, by its keys: what flags give, and what follows from them.
 *
 * @param of the fields of a BERT alone, or all others
 * @throws ConfigurationError MTL_FLAG_REQUIRED for a flag that nothing gives
 */
export function configuredFields(
  flags: FlagReader,
  of: 'bert' | 'others',
): Readonly<Record<string, unknown>> {
  const known = {
    kind: flags.model,
    hiddenSize: flags.required('hidden-size'),
    numAttentionHeads: flags.required('num-attention-heads'),
    groupQueryAttention: flags.get('group-query-attention'),
    swiglu: flags.get('swiglu'),
    sequenceLength: flags.required('seq-length'),
  };
  const chosen = fieldsOf().filter(([, { kind }]) => (kind === 'bert') === (of === 'bert'));
  const values = chosen.map(([name, field]) => {
    const { key, configurationKey, isLeftOpen, otherwise } = field;
    const given = flags.get(name);
    const value = isLeftOpen ? given : (given ?? otherwise?.(known) ?? flags.required(name));
    return configurationKey === undefined ? [key, negatedIf(field, value)] : [configurationKey, value];
  });
  return Object.fromEntries(values) as Readonly<Record<string, unknown>>;
}
