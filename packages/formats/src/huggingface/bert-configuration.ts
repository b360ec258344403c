import type { BertModelConfiguration } from '@mtl/models';
import { inOrder, readConfigFields, writeConfigFields } from './config-fields.js';
import type { JsonFields } from './json-fields.js';
import { type BertTypeName, modelTypes } from './model-types.js';
import { checkSupported } from './unsupported-features.js';

/**
 * Returns the architecture that the config.json of a BERT or a RoFormer describes. Sizes are required. Other
 * missing fields have the defaults of transformers.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG
 */
export function parseBertConfiguration(
  fields: JsonFields,
  ours: Pick<BertModelConfiguration, 'makeVocabularySizeDivisibleBy' | 'sentenceOrderHead'>,
): BertModelConfiguration {
  checkSupported(fields, { wanted: 'bert' });
  const { fields: table, fixed } = modelTypes[fields.required<BertTypeName>('model_type', 'a string')];
  return { ...ours, ...fixed, ...readConfigFields(fields, table) } as BertModelConfiguration;
}

/** Returns the model type of transformers for a BERT. The type depends on the kind of position embeddings. */
export const chooseBertType = ({ positionEmbeddingType }: BertModelConfiguration): BertTypeName =>
  positionEmbeddingType === 'rope' ? 'roformer' : 'bert';

/** The fields of config.json that depend on the BERT's class in transformers. */
export interface BertArchitecture {
  readonly className: string;
  /** Names of the classes of a classification, in the order of the logits. */
  readonly labels?: readonly string[] | undefined;
}

/** Returns the fields of config.json of a BERT. */
export function encodeBertConfiguration(
  model: BertModelConfiguration,
  { dtype, paddingToken, className, labels }: BertArchitecture & { dtype: string; paddingToken: number },
): Record<string, unknown> {
  const type = chooseBertType(model);
  return inOrder({
    ...writeConfigFields(model, modelTypes[type].fields),
    architectures: [className],
    dtype,
    ...(labels === undefined ? {} : labelFields(labels)),
    model_type: type,
    pad_token_id: paddingToken,
    tie_word_embeddings: true,
    // the name that transformers before 4.56 gave to `dtype`
    torch_dtype: dtype,
  });
}

/** Returns the fields with the labels' names, from which transformers derives the number of labels. */
const labelFields = (labels: readonly string[]) => ({
  id2label: Object.fromEntries(labels.map((label, index) => [index, label])),
  label2id: Object.fromEntries(labels.map((label, index) => [label, index])),
});
