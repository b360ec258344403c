import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import { checkSupported } from './check-supported.js';
import { geluKindOf } from './gelu-kinds.js';
import type { JsonFields } from './json-fields.js';

/** Fields that transformers reads as true or false, or as a name, must be so. */
const typed = {
  scale_attn_weights: 'true or false',
  scale_attn_by_inverse_layer_idx: 'true or false',
  add_cross_attention: 'true or false',
} as const;

function checkArchitecture(fields: JsonFields): void {
  for (const [name, kind] of Object.entries(typed)) fields.optional<unknown>(name, kind, undefined);
  checkSupported(fields, { wanted: 'gpt2' });
}

/**
 * The architecture that a GPT-2 config.json describes. Sizes must be there; what transformers has defaults
 * for, has the same ones here.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG
 */
export function parseGpt2Configuration(
  fields: JsonFields,
  { makeVocabularySizeDivisibleBy }: { makeVocabularySizeDivisibleBy: number },
): { configuration: GptModelConfiguration; notices: string[] } {
  checkArchitecture(fields);
  const size = (...names: string[]): number => fields.required(names, 'a positive integer');
  const hiddenSize = size('n_embd', 'hidden_size');
  const numAttentionHeads = size('n_head', 'num_attention_heads');
  if (hiddenSize % numAttentionHeads !== 0) {
    throw fields.refuse(
      'n_head' in fields.values ? 'n_head' : 'num_attention_heads',
      `a divisor of ${hiddenSize}`,
    );
  }
  const geluKind = geluKindOf(fields, { name: 'activation_function', otherwise: 'gelu_new' });
  const layerNormEpsilon = fields.optional('layer_norm_epsilon', 'a number', 1e-5);
  if (layerNormEpsilon <= 0) throw fields.refuse('layer_norm_epsilon', 'a number above 0');
  const initMethodStd = fields.optional('initializer_range', 'a number', 0.02);
  if (initMethodStd < 0) throw fields.refuse('initializer_range', 'a number, 0 or more');
  const hiddenDropout = fields.probability('resid_pdrop', 0.1);
  const embeddingDropout = fields.probability('embd_pdrop', 0.1);
  const configuration: GptModelConfiguration = {
    numLayers: size('n_layer', 'num_hidden_layers'),
    hiddenSize,
    ffnHiddenSize: fields.optional('n_inner', 'a positive integer', 4 * hiddenSize),
    numAttentionHeads,
    maxPositionEmbeddings: size('n_positions', 'max_position_embeddings'),
    vocabularySize: size('vocab_size'),
    makeVocabularySizeDivisibleBy,
    tieEmbeddings: fields.optional('tie_word_embeddings', 'true or false', true),
    layerNormEpsilon,
    geluKind,
    hiddenDropout,
    attentionDropout: fields.probability('attn_pdrop', 0.1),
    initMethodStd,
  };
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
  return {
    activation_function: model.geluKind === 'tanh' ? 'gelu_new' : 'gelu',
    architectures: ['GPT2LMHeadModel'],
    attn_pdrop: model.attentionDropout,
    bos_token_id: endToken,
    dtype,
    embd_pdrop: model.hiddenDropout,
    eos_token_id: endToken,
    initializer_range: model.initMethodStd,
    layer_norm_epsilon: model.layerNormEpsilon,
    model_type: 'gpt2',
    n_embd: model.hiddenSize,
    n_head: model.numAttentionHeads,
    n_inner: model.ffnHiddenSize,
    n_layer: model.numLayers,
    n_positions: model.maxPositionEmbeddings,
    resid_pdrop: model.hiddenDropout,
    tie_word_embeddings: model.tieEmbeddings,
    // the name of `dtype` before transformers 4.56
    torch_dtype: dtype,
    use_cache: true,
    vocab_size: model.vocabularySize,
  };
}
