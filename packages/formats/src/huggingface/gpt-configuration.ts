import type { GptModelConfiguration } from '@mtl/models';
import { readConfigFields, writeConfigFields } from './config-fields.js';
import type { JsonFields } from './json-fields.js';
import { type GptTypeName, modelTypes } from './model-types.js';
import { checkedFields, checkSupported, unknownFields } from './unsupported-features.js';

/** A GPT that a config.json describes. */
interface DescribedGpt {
  readonly modelType: GptTypeName;
  readonly configuration: GptModelConfiguration;
  readonly notices: readonly string[];
}

/**
 * Returns the GPT that a config.json describes: a GPT-2, a Llama or a model derived from Llama. Sizes are
 * required. All other missing fields get the defaults of the transformers library.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG
 */
export function parseGptConfiguration(
  fields: JsonFields,
  ours: Pick<GptModelConfiguration, 'makeVocabularySizeDivisibleBy'>,
): DescribedGpt {
  checkSupported(fields, { wanted: 'gpt' });
  const modelType = fields.required<GptTypeName>('model_type', 'a string');
  const { fields: table, fixed } = modelTypes[modelType];
  const properties = { ...ours, ...fixed, ...readConfigFields(fields, table) };
  const stated = Object.entries(properties).filter(([, value]) => value !== undefined);
  const configuration = Object.fromEntries(stated) as unknown as GptModelConfiguration;
  const read = new Set<string>([
    ...table.flatMap(({ names }) => names),
    ...Object.keys(writeConfigFields(configuration, table)),
    ...checkedFields,
  ]);
  const notices = [
    ...(modelType === 'gpt2' ? embeddingDropoutNotices(fields, configuration) : []),
    ...unknownFields(fields, read),
  ];
  return { modelType, configuration, notices };
}

/**
 * Returns a notice if GPT-2's two dropout probabilities differ, because this project's models have only one
 * value.
 */
function embeddingDropoutNotices(fields: JsonFields, { hiddenDropout }: GptModelConfiguration): string[] {
  const embeddingDropout = fields.optional('embd_pdrop', 'a number', 0.1);
  if (embeddingDropout < 0 || embeddingDropout >= 1) {
    throw fields.refuse('embd_pdrop', 'a probability, 0 or more and below 1');
  }
  if (embeddingDropout === hiddenDropout) return [];
  return [
    `${fields.path}: embd_pdrop ${embeddingDropout} is replaced by resid_pdrop ${hiddenDropout} in training`,
  ];
}

/**
 * Returns the ids of the tokens that end a text; undefined if `eos_token_id`, which may be an id or a list of
 * ids, is absent.
 */
export function parseEndTokens(fields: JsonFields, vocabularySize: number): readonly number[] | undefined {
  const value = fields.values.eos_token_id;
  if (value === undefined || value === null) return undefined;
  const ids: unknown[] = Array.isArray(value) ? value : [value];
  const isId = (id: unknown): id is number => Number.isSafeInteger(id) && (id as number) >= 0;
  if (ids.every(isId)) {
    // by default, transformers writes GPT-2's end token 50256, even for a smaller vocabulary
    return ids.filter((id) => id < vocabularySize);
  }
  throw fields.refuse('eos_token_id', 'a token id or a list of token ids');
}

/** Returns the config.json fields of a GPT-2, a Llama or a model derived from Llama. */
export function encodeGptConfiguration(
  model: GptModelConfiguration,
  options: { modelType: GptTypeName; dtype: string; tokens: Readonly<Record<string, unknown>> },
): Record<string, unknown> {
  const { modelType, dtype, tokens } = options;
  const { fields, className } = modelTypes[modelType];
  return {
    ...writeConfigFields(model, fields),
    architectures: [className],
    ...tokens,
    dtype,
    model_type: modelType,
    // the name of `dtype` in transformers before 4.56
    torch_dtype: dtype,
  };
}
