import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import { checkSupported } from './check-supported.js';
import { inOrder, readConfigFields, writeConfigFields } from './config-fields.js';
import type { JsonFields } from './json-fields.js';
import { modelTypes } from './model-types.js';

const { fields: table } = modelTypes.gpt2;

/**
 * The architecture that a GPT-2 config.json describes. Sizes must be there; what transformers has defaults
 * for, has the same ones here.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG
 */
export function parseGpt2Configuration(
  fields: JsonFields,
  ours: Pick<GptModelConfiguration, 'makeVocabularySizeDivisibleBy'>,
): { configuration: GptModelConfiguration; notices: string[] } {
  checkSupported(fields, { wanted: 'gpt2' });
  const configuration = { ...ours, ...readConfigFields(fields, table) } as GptModelConfiguration;
  // of the two one is used for both
  const { hiddenDropout } = configuration;
  const embeddingDropout = fields.optional('embd_pdrop', 'a number', 0.1);
  if (embeddingDropout < 0 || embeddingDropout >= 1) {
    throw fields.refuse('embd_pdrop', 'a probability, 0 or more and below 1');
  }
  const notices =
    embeddingDropout === hiddenDropout
      ? []
      : [
          `${fields.path}: embd_pdrop ${embeddingDropout} is replaced by resid_pdrop ${hiddenDropout} in training`,
        ];
  return { configuration, notices };
}

/** The tokens that end a text: eos_token_id is one id, several or none. */
export function parseEndTokens(fields: JsonFields, vocabularySize: number): readonly number[] | undefined {
  const value = fields.values.eos_token_id;
  if (value === undefined || value === null) return undefined;
  const ids: unknown[] = Array.isArray(value) ? value : [value];
  const isId = (id: unknown): id is number => Number.isSafeInteger(id) && (id as number) >= 0;
  if (ids.every(isId)) {
    // transformers writes the real GPT-2's 50256 by default, whatever the vocabulary
    return ids.filter((id) => id < vocabularySize);
  }
  throw fields.refuse('eos_token_id', 'a token id or a list of them');
}

/** The fields of config.json of a GPT. */
export function encodeGpt2Configuration(
  model: GptModelConfiguration,
  { dtype, endTokens }: { dtype: string; endTokens: readonly number[] },
): Record<string, unknown> {
  const [endToken = null] = endTokens;
  return inOrder({
    ...writeConfigFields(model, table),
    architectures: ['GPT2LMHeadModel'],
    bos_token_id: endToken,
    dtype,
    eos_token_id: endToken,
    model_type: 'gpt2',
    // the name of `dtype` before transformers 4.56
    torch_dtype: dtype,
    use_cache: true,
  });
}
