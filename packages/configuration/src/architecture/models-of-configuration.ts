import { UsageError } from '@mtl/errors';
import type { BertModelConfiguration, GptModelConfiguration, TransformerConfiguration } from '@mtl/models';
import { optionName } from '../flags/option-names.js';
import type {
  BertConfiguration,
  ModelConfiguration,
  PretrainingConfiguration,
} from '../pretraining-configuration.js';
import { type ArchitectureField, type ModelKind, modelValue, unstatedValue } from './architecture-field.js';
import { type ArchitectureFlag, listFields } from './list-fields.js';

/** The model fields that flags determine: all except the size of the vocabulary. */
export type ModelFields = Omit<TransformerConfiguration, 'vocabularySize'>;

/**
 * Flags whose own value is in a run's configuration, under the name of the flag's option, instead of the
 * value that the model has.
 */
const configuredAsFlags: readonly ArchitectureFlag[] = [
  'untie-embeddings-and-output-weights',
  'make-vocab-size-divisible-by',
];

/**
 * The key of a field in a run's configuration. `isFlagValue` is true if the configuration contains the flag's
 * value instead of the model's value.
 */
interface ConfiguredField {
  readonly key: string;
  readonly isFlagValue: boolean;
}

/** Returns the key of a field in a run's configuration. */
export function configuredField(name: ArchitectureFlag, { key }: ArchitectureField): ConfiguredField {
  const isFlagValue = configuredAsFlags.includes(name);
  return { key: isFlagValue ? optionName(name) : key, isFlagValue };
}

/** Returns the architecture in a run's configuration in the form of a model's configuration. */
function modelOfConfiguration(
  kind: ModelKind,
  { model, bert }: Pick<PretrainingConfiguration, 'model' | 'bert'>,
): ModelFields {
  const configured = { ...model, ...bert, kind } as Readonly<Record<string, unknown>>;
  const values = listFields(kind).map(([name, field]) => {
    const { key, isFlagValue } = configuredField(name, field);
    const stated = isFlagValue ? modelValue(field, configured[key]) : configured[key];
    return [field.key, stated ?? modelValue(field, unstatedValue(field, configured))] as const;
  });
  return Object.fromEntries(values) as unknown as ModelFields;
}

/**
 * Returns the configuration of a GPT with the architecture that flags describe and the given vocabulary size.
 */
export function describeGptModel(model: ModelConfiguration, vocabularySize: number): GptModelConfiguration {
  const fields = modelOfConfiguration('gpt', { model }) as Omit<GptModelConfiguration, 'vocabularySize'>;
  return { ...fields, vocabularySize };
}

type FieldsOfFlags = Omit<BertModelConfiguration, 'vocabularySize' | 'tokenTypeVocabularySize'>;

/**
 * Returns the configuration of a BERT with the architecture that flags describe and the given vocabulary
 * size.
 */
export function describeBertModel(
  configuration: Pick<PretrainingConfiguration, 'model' | 'bert'>,
  vocabularySize: number,
): BertModelConfiguration {
  const bert = requireBert(configuration);
  const fields = modelOfConfiguration('bert', { model: configuration.model, bert }) as FieldsOfFlags;
  return { ...fields, vocabularySize, tokenTypeVocabularySize: 2 };
}

/**
 * Returns the settings that only a BERT has.
 *
 * @throws UsageError MTL_MODEL_KIND if the configuration is not for a BERT
 */
export function requireBert({ bert }: Pick<PretrainingConfiguration, 'bert'>): BertConfiguration {
  if (bert !== undefined) return bert;
  throw new UsageError('MTL_MODEL_KIND', 'a BERT is built from the configuration of another model', {
    expected: "a configuration whose kind is 'bert'",
  });
}
