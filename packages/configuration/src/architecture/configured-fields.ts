import type { FlagReader } from '../validation/flag-reader.js';
import type { ArchitectureField, KnownValues } from './architecture-field.js';
import { architectureFields } from './architecture-fields.js';
import { type ArchitectureFlag, fieldsOf } from './fields-of.js';
import { modelValue } from './model-values.js';

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
  const given = {
    kind: flags.model,
    hiddenSize: flags.required('hidden-size'),
    numAttentionHeads: flags.required('num-attention-heads'),
    groupQueryAttention: flags.get('group-query-attention'),
    swiglu: flags.get('swiglu'),
    squaredRelu: flags.get('squared-relu'),
    quickGeglu: flags.get('quick-geglu'),
    numExperts: flags.get('num-experts'),
    moeRouterEnableExpertBias: flags.get('moe-router-enable-expert-bias'),
    moeExpertCapacityFactor: flags.get('moe-expert-capacity-factor'),
    positionEmbeddingType: flags.required('position-embedding-type'),
    useRopeScaling: flags.get('use-rope-scaling'),
    yarnAttentionFactor: flags.get('yarn-attention-factor'),
    sequenceLength: flags.required('seq-length'),
  };
  const width = architectureFields['ffn-hidden-size'].otherwise(given) as number;
  const known = { ...given, ffnHiddenSize: flags.get('ffn-hidden-size') ?? width };
  const chosen = fieldsOf().filter(([, { kind }]) => (kind === 'bert') === (of === 'bert'));
  const values = chosen.map(([name, field]) => {
    const { key, configurationKey } = field;
    const value = configuredValue(flags, { name, field, known });
    return configurationKey === undefined ? [key, modelValue(field, value)] : [configurationKey, value];
  });
  return Object.fromEntries(values) as Readonly<Record<string, unknown>>;
}

function configuredValue(
  flags: FlagReader,
  {
    name,
    field: { isLeftOpen, isOptional, isUnused, otherwise },
    known,
  }: { readonly name: ArchitectureFlag; readonly field: ArchitectureField; readonly known: KnownValues },
): unknown {
  const given = flags.get(name);
  if (isLeftOpen) return given;
  if (isOptional) return isUnused?.(known) ? undefined : (given ?? otherwise?.(known));
  return given ?? otherwise?.(known) ?? flags.required(name);
}
