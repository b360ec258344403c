import type { TransformerConfiguration } from '@mtl/models';
import type { ModelKind } from '../model-kind.js';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import { fieldsOf } from './fields-of.js';
import { modelValue, unstatedValue } from './model-values.js';

/** The fields of a model that flags decide: all but the vocabulary. */
export type ModelFields = Omit<TransformerConfiguration, 'vocabularySize'>;

/** The architecture of a run's configuration, as a model of this kind has it. */
export function modelOfConfiguration(
  kind: ModelKind,
  { model, bert }: Pick<PretrainingConfiguration, 'model' | 'bert'>,
): ModelFields {
  const configured = { ...model, ...bert, kind } as Readonly<Record<string, unknown>>;
  const values = fieldsOf(kind).map(([, field]) => {
    const { key, configurationKey } = field;
    const stated =
      configurationKey === undefined ? configured[key] : modelValue(field, configured[configurationKey]);
    return [key, stated ?? modelValue(field, unstatedValue(field, configured))] as const;
  });
  return Object.fromEntries(values) as unknown as ModelFields;
}
