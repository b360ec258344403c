import { allocateParameters } from '@mtl/autograd';
import { hostTensor, type LogicalTensor } from '@mtl/checkpoint';
import { GptLanguageModel, type GptModelConfiguration, GptStage, gptParameters } from '@mtl/models';
import { parseGptConfiguration } from '../../src/huggingface/gpt-configuration.js';
import { JsonFields } from '../../src/huggingface/json-fields.js';
import { type LoraConfiguration, mergedWeights, parameterTensors, specifyLora } from '../../src/index.js';
import { isAdapter } from '../../src/lora/lora-configuration.js';

type Fields = Readonly<Record<string, unknown>>;

/** Sizes whose rows are whole blocks of 32 values, with a vocabulary that is padded here to 272 tokens. */
const llama: Fields = {
  vocab_size: 267,
  hidden_size: 64,
  intermediate_size: 96,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 16,
  max_position_embeddings: 64,
  rms_norm_eps: 1e-5,
  hidden_act: 'silu',
  tie_word_embeddings: false,
  sliding_window: null,
};

const gpt2: Fields = {
  model_type: 'gpt2',
  vocab_size: 267,
  n_embd: 64,
  n_head: 4,
  n_layer: 2,
  n_positions: 64,
  activation_function: 'gelu_new',
};

const experts: Fields = {
  num_experts: 4,
  num_experts_per_tok: 2,
  moe_intermediate_size: 32,
  decoder_sparse_step: 1,
  mlp_only_layers: [],
};

const llama3 = {
  rope_type: 'llama3',
  factor: 8,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 32,
};

const yarn = {
  rope_type: 'yarn',
  factor: 2,
  original_max_position_embeddings: 32,
  beta_fast: 16,
  beta_slow: 1,
};

const fieldsByName = {
  gpt2,
  'gpt2-untied': { ...gpt2, tie_word_embeddings: false },
  llama: { ...llama, model_type: 'llama', head_dim: 24 },
  'llama-3': { ...llama, model_type: 'llama', rope_scaling: llama3, rope_theta: 500_000 },
  'llama-bias': {
    ...llama,
    model_type: 'llama',
    tie_word_embeddings: true,
    attention_bias: true,
    mlp_bias: true,
    rope_scaling: { rope_type: 'linear', factor: 4 },
  },
  'llama-yarn': { ...llama, model_type: 'llama', rope_scaling: { ...yarn, attention_factor: 1.2 } },
  mistral: { ...llama, model_type: 'mistral' },
  smollm3: {
    ...llama,
    model_type: 'smollm3',
    num_hidden_layers: 5,
    tie_word_embeddings: true,
    no_rope_layer_interval: 4,
  },
  mixtral: { ...llama, model_type: 'mixtral', num_local_experts: 4, num_experts_per_tok: 2 },
  qwen2: { ...llama, model_type: 'qwen2', rope_scaling: yarn },
  qwen3: { ...llama, model_type: 'qwen3' },
  'qwen2-moe': {
    ...llama,
    ...experts,
    model_type: 'qwen2_moe',
    norm_topk_prob: false,
    shared_expert_intermediate_size: 64,
  },
  'qwen3-moe': { ...llama, ...experts, model_type: 'qwen3_moe', norm_topk_prob: true },
  olmoe: {
    ...llama,
    model_type: 'olmoe',
    num_key_value_heads: 4,
    num_experts: 4,
    num_experts_per_tok: 2,
    norm_topk_prob: false,
    clip_qkv: null,
  },
} satisfies Readonly<Record<string, Fields>>;

export type TinyModelName = keyof typeof fieldsByName;

/** Models of all architectures that are written, as config.json states them. */
export const configurations: Readonly<Record<TinyModelName, Fields>> = fieldsByName;

export const tinyModelNames = Object.keys(configurations) as TinyModelName[];

/** Returns the model of fields of config.json. */
export const parseModel = (fields: Fields): GptModelConfiguration =>
  parseGptConfiguration(new JsonFields('config.json', fields), { makeVocabularySizeDivisibleBy: 16 })
    .configuration;

/** Returns numbers of a normal distribution, the same for the same seed. */
export function normal(length: number, seed: number): Float32Array {
  let state = seed;
  const uniform = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
  return Float32Array.from(
    { length },
    () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()),
  );
}

/** A model with its storage. */
export interface TinyModel {
  readonly model: GptModelConfiguration;
  readonly tensors: ReturnType<typeof parameterTensors>;
  /** Returns the log-probabilities of all tokens after each position. */
  logProbabilities(tokens: readonly number[]): Float64Array[];
  [Symbol.dispose](): void;
}

/** Returns a model whose parameters are zero. */
export function emptyModel(model: GptModelConfiguration): TinyModel {
  const stage = new GptStage({ model, device: 'cpu', dtype: 'float32', seed: 1 });
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype: 'float32' });
  const language = new GptLanguageModel(stage);
  return {
    model,
    tensors: parameterTensors(stage.parameters),
    logProbabilities: (tokens) => {
      using cache = disposable(language.newCache({ batchSize: 1, capacity: tokens.length }));
      return tokens.map((token) => {
        const sequences = [{ slot: 0, tokens: Int32Array.of(token) }];
        const logits = language.forward({ cache: cache.value, sequences });
        const most = Math.max(...logits);
        const sum = logits.reduce((total, logit) => total + Math.exp(logit - most), 0);
        return Float64Array.from(logits, (logit) => logit - most - Math.log(sum));
      });
    },
    [Symbol.dispose]: () => {
      stage.dispose();
      storage.dispose();
    },
  };
}

const disposable = <T extends { dispose(): void }>(value: T) => ({
  value,
  [Symbol.dispose]: () => value.dispose(),
});

const isTable = /^(embedding\.word_embeddings|output_layer)\.weight$/;

/**
 * Returns a model with random parameters, biases and norms included: each matters to the logits. The rows of
 * the vocabulary's padding are zero.
 */
export async function randomModel(model: GptModelConfiguration): Promise<TinyModel> {
  const tiny = emptyModel(model);
  const { hiddenSize, vocabularySize } = model;
  for (const [index, tensor] of tiny.tensors.entries()) {
    const { name, globalShape } = tensor;
    const values = normal(
      globalShape.reduce((product, size) => product * size, 1),
      index + 1,
    );
    const isNorm = name.includes('norm') && name.endsWith('.weight');
    const deviation = /embeddings/.test(name) ? 1 : 1 / Math.sqrt(hiddenSize);
    for (const [at, value] of values.entries()) values[at] = isNorm ? 1 + value / 4 : deviation * value;
    if (isTable.test(name)) values.fill(0, vocabularySize * hiddenSize);
    await tensor.write(new Uint8Array(values.buffer));
  }
  return tiny;
}

/** Returns the characters that stand for the 256 bytes in the vocabularies of byte-level BPE. */
function byteCharacters(): readonly string[] {
  const isShown = (byte: number): boolean =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isShown(byte) ? byte : next++));
}

const endOfText = '<|endoftext|>';
const merges = ['t h', 'th e', 'i n', 'a n', 'an d', 'Ġ t', 'e r', 'o n', 'Ġ a', 'r e'];

/** The tokenizer.json of a byte-level BPE with 267 tokens: ten merged tokens, and last the end of texts. */
export const tokenizerJson = {
  version: '1.0',
  added_tokens: [{ id: 266, content: endOfText, special: true }],
  normalizer: null,
  pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
  post_processor: null,
  decoder: { type: 'ByteLevel' },
  model: {
    type: 'BPE',
    vocab: Object.fromEntries(
      [...byteCharacters(), ...merges.map((merge) => merge.replace(' ', '')), endOfText].map((token, id) => [
        token,
        id,
      ]),
    ),
    merges,
  },
};

/** The files of a tokenizer for the models here. */
export const tokenizerFiles = {
  'tokenizer.json': { contents: JSON.stringify(tokenizerJson) },
  'tokenizer_config.json': {
    contents: JSON.stringify({ eos_token: endOfText, chat_template: '{{ messages }}' }),
  },
};

/** Adapters of all linear layers, of LoRA rank 3. */
export const lora: LoraConfiguration = {
  rank: 3,
  alpha: 2,
  useRslora: true,
  dropout: 0,
  targets: ['all-linear'],
};

/** Returns the tensors of a model with random adapters. */
export function withAdapters({ model, tensors }: TinyModel): readonly LogicalTensor[] {
  const adapters = gptParameters(model, { lora: specifyLora(lora, model) })
    .filter(({ name }) => isAdapter(name))
    .map(({ name, globalShape, size }, index) => {
      const values = normal(size, 1000 + index).map((value) => value / 8);
      const memory = new Uint8Array(values.buffer);
      return hostTensor({ name, dtype: 'F32', globalShape, memory });
    });
  return [...tensors, ...adapters];
}

/** Returns the model with adapters merged into its weights. */
export async function merged(tiny: TinyModel): Promise<TinyModel> {
  const { model } = tiny;
  const result = emptyModel(model);
  const values = new Map(
    mergedWeights(withAdapters(tiny), { model, lora }).map((tensor) => [tensor.name, tensor]),
  );
  for (const tensor of result.tensors) await tensor.write(await values.get(tensor.name)!.read());
  return result;
}
