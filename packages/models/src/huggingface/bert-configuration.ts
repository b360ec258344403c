import type { BertModelConfiguration } from '../bert/bert-model-configuration.js';
import { checkSupported } from './check-supported.js';
import { inOrder, readConfigFields, writeConfigFields } from './config-fields.js';
import type { JsonFields } from './json-fields.js';
import { modelTypes } from './model-types.js';

const { fields: table, fixed } = modelTypes.bert;

/**
 * The architecture that a BERT config.json describes. Sizes must be there; what transformers has defaults
 * for, has the same ones here.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG
 */
export function parseBertConfiguration(
  fields: JsonFields,
  ours: Pick<BertModelConfiguration, 'makeVocabularySizeDivisibleBy' | 'sentenceOrderHead'>,
): BertModelConfiguration {
  checkSupported(fields, { wanted: 'bert' });
  return { ...ours, ...fixed, ...readConfigFields(fields, table) } as BertModelConfiguration;
}

/** What config.json states about the class of transformers that a BERT is loaded as. */
export interface BertArchitecture {
  readonly className: string;
  /** What the classes of a classification are called, in order. */
  readonly labels?: readonly string[] | undefined;
}

/** The fields of config.json of a BERT. */
export function encodeBertConfiguration(
  model: BertModelConfiguration,
  { dtype, paddingToken, className, labels }: BertArchitecture & { dtype: string; paddingToken: number },
): Record<string, unknown> {
  return inOrder({
    ...writeConfigFields(model, table),
    architectures: [className],
    dtype,
    ...(labels === undefined ? {} : labelFields(labels)),
    model_type: 'bert',
    pad_token_id: paddingToken,
    tie_word_embeddings: true,
    // the name of `dtype` before transformers 4.56
    torch_dtype: dtype,
  });
}

/** The number of labels follows from these in transformers. */
const labelFields = (labels: readonly string[]) => ({
  id2label: Object.fromEntries(labels.map((label, index) => [index, label])),
  label2id: Object.fromEntries(labels.map((label, index) => [label, index])),
});
