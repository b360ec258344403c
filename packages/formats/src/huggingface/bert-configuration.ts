import type { BertModelConfiguration } from '@mtl/models';
import { inOrder, readConfigFields, writeConfigFields } from './config-fields.js';
import type { JsonFields } from './json-fields.js';
import { type BertTypeName, modelTypes } from './model-types.js';
import { checkSupported } from './unsupported-features.js';

/**
 * Returns the architecture that a BERT's or RoFormer's config.json describes. Sizes are required. All other
 * missing fields get the defaults of the transformers library.
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

/**
 * Returns the transformers library's model type for a BERT, which depends on the kind of position embeddings.
 */
export const chooseBertType = ({ positionEmbeddingType }: BertModelConfiguration): BertTypeName =>
  positionEmbeddingType === 'rope' ? 'roformer' : 'bert';

/** The config.json fields that depend on the BERT's class in the transformers library. */
export interface BertArchitecture {
  readonly className: string;
  /** The class names of a classification, in the order of the logits. */
  readonly labels?: readonly string[] | undefined;
}

/** Returns the config.json fields of a BERT. */
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
    // the name of `dtype` in transformers before 4.56
    torch_dtype: dtype,
  });
}

/** Returns the fields that contain the label names. transformers derives the number of labels from them. */
const labelFields = (labels: readonly string[]) => ({
  id2label: Object.fromEntries(labels.map((label, index) => [index, label])),
  label2id: Object.fromEntries(labels.map((label, index) => [label, index])),
});
