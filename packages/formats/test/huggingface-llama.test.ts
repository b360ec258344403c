import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SafetensorsDirectory, writeSafetensorsDirectory } from '@mtl/checkpoint';
import type { GptModelConfiguration } from '@mtl/models';
import { llamaVariants, smallGpt } from '@mtl/models/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parameterTensors, readHuggingFaceGpt, writeHuggingFaceGpt } from '../src/index.js';
import {
  expertNames,
  type FixtureName,
  fixtureDirectory,
  llamaNames,
  loadModel,
} from './huggingface-fixture.js';

let scratch: string;
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'huggingface-'));
});
afterEach(async () => {
  await rm(scratch, { recursive: true });
});

type Fields = Readonly<Record<string, unknown>>;

const readConfig = async (directory: string): Promise<Fields> =>
  JSON.parse(await readFile(join(directory, 'config.json'), 'utf8')) as Fields;

/** All tensors of a directory as bytes, by name. */
async function contents(directory: string): Promise<ReadonlyMap<string, object>> {
  const weights = await SafetensorsDirectory.open(directory);
  const all = new Map<string, object>();
  for (const [name, { dtype, shape }] of weights.tensors) {
    all.set(name, { dtype, shape, bytes: Buffer.from(await weights.read({ name })) });
  }
  await weights.close();
  return all;
}

/** Saves a fixture's model. */
async function saved(
  name: FixtureName,
  { keepsOrigin }: { readonly keepsOrigin: boolean },
): Promise<{ readonly directory: string; readonly model: GptModelConfiguration }> {
  const { source, stage, dispose } = await loadModel(fixtureDirectory(name));
  const directory = join(scratch, `saved-${keepsOrigin}`);
  await writeHuggingFaceGpt({
    directory,
    model: source.configuration,
    tensors: parameterTensors(stage.parameters),
    dtype: source.dtype === 'bfloat16' ? 'BF16' : 'F32',
    endTokens: source.endTokens,
    origin: keepsOrigin ? source.origin : undefined,
  });
  dispose();
  return { directory, model: source.configuration };
}

/** transformers 5 gives the experts of a Qwen3-MoE a Mixtral's field; earlier versions read `num_experts`. */
function withOlderName(config: Fields): Fields {
  if (config.model_type !== 'qwen3_moe') return config;
  const { num_local_experts, ...others } = config;
  return { ...others, num_experts: num_local_experts };
}

describe.each([...llamaNames, ...expertNames])('%s', (name) => {
  it('comes back bit for bit when saved in its dtype, with what config.json says', async () => {
    const { directory, model } = await saved(name, { keepsOrigin: true });
    expect(await contents(directory)).toEqual(await contents(fixtureDirectory(name)));
    const [ours, theirs] = [await readConfig(directory), await readConfig(fixtureDirectory(name))];
    // for transformers 4
    const { torch_dtype, rope_theta, rope_scaling, ...others } = ours;
    const { transformers_version: _, ...known } = theirs;
    expect(others).toEqual(withOlderName(known));
    const { rope_theta: theta, ...scaling } = theirs.rope_parameters as Fields;
    expect({ torch_dtype, rope_theta, rope_scaling }).toEqual({
      torch_dtype: theirs.dtype,
      rope_theta: theta,
      rope_scaling: scaling.rope_type === 'default' ? null : scaling,
    });
    const again = await readHuggingFaceGpt({ directory, makeVocabularySizeDivisibleBy: 16 });
    expect(again.configuration).toEqual(model);
    expect([again.modelType, again.endTokens]).toEqual([known.model_type, [2]]);
  });

  it('is written as a model type that has its blocks where it does not say where it came from', async () => {
    const { directory, model } = await saved(name, { keepsOrigin: false });
    const again = await readHuggingFaceGpt({ directory, makeVocabularySizeDivisibleBy: 16 });
    expect(again.configuration).toEqual(model);
    expect(again.endTokens).toEqual([2]);
    expect(again.modelType).toBe((await readConfig(fixtureDirectory(name))).model_type);
  });

  it('is read in the spelling of transformers 4', async () => {
    await cp(fixtureDirectory(name), scratch, { recursive: true });
    const { dtype, rope_parameters, layer_types, ...others } = await readConfig(scratch);
    // older files list the layers only where their windows follow no rule
    const listed = name === 'huggingface-smollm3' ? { layer_types } : {};
    const { rope_theta, rope_type, ...scaling } = rope_parameters as Fields;
    const older = {
      ...others,
      ...listed,
      torch_dtype: dtype,
      rope_theta,
      rope_scaling: rope_type === 'default' ? null : { type: rope_type, ...scaling },
    };
    await writeFile(join(scratch, 'config.json'), JSON.stringify(older));
    const [before, now] = [await readHuggingFaceGpt({ directory: scratch }), fixtureDirectory(name)];
    const { configuration, dtype: known } = await readHuggingFaceGpt({ directory: now });
    expect(before.configuration).toEqual(configuration);
    expect(before.dtype).toBe(known);
  });
});

it('says which fields nothing computes with', async () => {
  const usual = { pretraining_tp: 2, rope_interleaved: false, torch_dtype: 'float32', unsloth_fixed: true };
  const others = { mup_scale: 3, note: null, is_moe: false };
  const { notices } = await readChanged('huggingface-llama', { ...usual, ...others });
  expect(notices).toEqual([expect.stringMatching(/config\.json: nothing here computes with mup_scale$/)]);
});

it('refuses a tied head with values of its own, and takes a copy of the embedding', async () => {
  const name = 'huggingface-smollm';
  for (const change of [0, 1]) {
    const directory = join(scratch, `${change}`);
    await cp(fixtureDirectory(name), directory, { recursive: true });
    const tensors = [...(await contents(fixtureDirectory(name)))].flatMap(([key, tensor]) => {
      const { dtype, shape, bytes } = tensor as { dtype: 'BF16'; shape: number[]; bytes: Buffer };
      const head = Buffer.from(bytes);
      head[0]! ^= change;
      const own = { name: key, dtype, shape, read: () => bytes };
      return key === 'model.embed_tokens.weight'
        ? [own, { ...own, name: 'lm_head.weight', read: () => head }]
        : [own];
    });
    await rm(join(directory, 'model.safetensors'));
    await writeSafetensorsDirectory({ directory, tensors });
    const loading = loadModel(directory);
    if (change === 0) (await loading).dispose();
    else {
      await expect(loading).rejects.toMatchObject({
        code: 'MTL_HUGGING_FACE_WEIGHTS',
        message: expect.stringContaining(
          'lm_head.weight has other values than model.embed_tokens.weight',
        ) as string,
      });
    }
  }
});

it('says that the tokenizer of a directory is in a form that is not read', async () => {
  await cp(fixtureDirectory('huggingface-mistral'), scratch, { recursive: true });
  await writeFile(join(scratch, 'tokenizer.model'), '');
  const { notices, tokenizerFiles } = await readHuggingFaceGpt({ directory: scratch });
  expect(notices).toEqual([expect.stringContaining('tokenizer.model is not read')]);
  expect(Object.keys(tokenizerFiles)).toEqual(['tokenizer.model']);
  await writeFile(join(scratch, 'tokenizer.json'), '{}');
  expect((await readHuggingFaceGpt({ directory: scratch })).notices).toEqual([]);
});

it('reads the configuration of a Llama', async () => {
  const { configuration } = await readHuggingFaceGpt({ directory: fixtureDirectory('huggingface-llama') });
  expect(configuration).toEqual({
    numLayers: 2,
    hiddenSize: 20,
    ffnHiddenSize: 26,
    numAttentionHeads: 4,
    numQueryGroups: 2,
    groupQueryAttention: true,
    kvChannels: 8,
    maxPositionEmbeddings: 24,
    vocabularySize: 37,
    makeVocabularySizeDivisibleBy: 128,
    tieEmbeddings: false,
    positionEmbeddingType: 'rope',
    rotaryBase: 10_000,
    rotarySeqLenInterpolationFactor: 1,
    useRopeScaling: true,
    ropeScalingFactor: 32,
    normalization: 'RMSNorm',
    layerNormEpsilon: 1e-5,
    swiglu: true,
    geluKind: 'tanh',
    addBiasLinear: false,
    hiddenDropout: 0,
    attentionDropout: 0,
    initMethodStd: 0.05,
  });
});

/** Reads a fixture with a changed config.json; undefined removes a field. */
async function readChanged(name: FixtureName, change: Fields) {
  const config = await readConfig(fixtureDirectory(name));
  await cp(fixtureDirectory(name), scratch, { recursive: true });
  await writeFile(join(scratch, 'config.json'), JSON.stringify({ ...config, ...change }));
  return await readHuggingFaceGpt({ directory: scratch });
}

const ropeWith = (change: Fields): Fields => ({
  rope_parameters: { rope_theta: 1e4, rope_type: 'llama3', factor: 8, ...llama3, ...change },
});
const llama3 = { low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 };

it.each<[FixtureName, Fields, Partial<GptModelConfiguration>]>([
  // transformers' defaults for missing fields
  ['huggingface-llama-bias', { rope_parameters: undefined }, { rotaryBase: 10_000, useRopeScaling: false }],
  [
    'huggingface-llama-bias',
    { num_key_value_heads: undefined, head_dim: null },
    { numQueryGroups: 3, kvChannels: 6 },
  ],
  ['huggingface-mistral', { sliding_window: null }, {}],
  ['huggingface-mistral', { sliding_window: undefined }, { windowSize: '4095,0' }],
  ['huggingface-qwen3', { use_sliding_window: false, layer_types: null }, {}],
  ['huggingface-qwen3', { layer_types: ['full_attention', 'full_attention'] }, {}],
  ['huggingface-qwen3', { layer_types: undefined, max_window_layers: 2 }, {}],
  [
    'huggingface-qwen3',
    { layer_types: ['full_attention', 'sliding_attention'] },
    { windowSize: '5,0', windowAttnSkipFreq: [0, 1] },
  ],
  [
    'huggingface-qwen3',
    { layer_types: undefined, max_window_layers: 1 },
    { windowSize: '5,0', windowAttnSkipFreq: [0, 1] },
  ],
  // without lists, every fourth layer is not rotated, and has the window
  [
    'huggingface-smollm3',
    { no_rope_layers: undefined, no_rope_layer_interval: undefined, layer_types: undefined },
    { noRopeFreq: 4, windowSize: '4,0', windowAttnSkipFreq: [0, 0, 0, 1] },
  ],
  ['huggingface-smollm3', { no_rope_layers: [1, 1, 1, 1], layer_types: null }, {}],
  // the parameters of the positions count before the field outside
  [
    'huggingface-stablelm',
    { rope_parameters: { rope_type: 'default', rope_theta: 1e4, partial_rotary_factor: 0.25 } },
    { rotaryPercent: 0.25 },
  ],
  [
    'huggingface-stablelm',
    { partial_rotary_factor: undefined, rope_parameters: undefined },
    { rotaryPercent: 0.25 },
  ],
  ['huggingface-llama', ropeWith({ factor: 8 }), { ropeScalingFactor: 8 }],
  [
    'huggingface-llama',
    ropeWith({ original_max_position_embeddings: 4096, low_freq_factor: 2 }),
    { ropeScalingOriginalMaxPositionEmbeddings: 4096, ropeScalingLowFreqFactor: 2 },
  ],
  [
    'huggingface-llama-bias',
    { rope_parameters: { rope_type: 'linear', factor: 1.5 } },
    { rotarySeqLenInterpolationFactor: 1.5 },
  ],
  ['huggingface-llama', { partial_rotary_factor: 1, sliding_window: null }, { useRopeScaling: true }],
  ['huggingface-llama', { hidden_act: 'swish' }, { swiglu: true }],
])('reads %s with %j', async (name, change, expected) => {
  const { configuration } = await readChanged(name, change);
  expect(configuration).toMatchObject(expected);
  if (!('windowSize' in expected) && name !== 'huggingface-llama')
    expect(configuration.windowSize).toBeUndefined();
});

it.each<[FixtureName, Fields, string, string]>([
  ['huggingface-llama', { attention_bias: true }, 'attention_bias is true', 'both true or both false'],
  ['huggingface-llama', { mlp_bias: true }, 'mlp_bias is true', 'both true or both false'],
  ['huggingface-qwen3', { attention_bias: true }, 'attention_bias is true', 'false'],
  ['huggingface-llama', { hidden_act: 'gelu' }, 'hidden_act is "gelu"', 'silu'],
  ['huggingface-llama', { head_dim: 7 }, 'head_dim is 7', 'an even number'],
  ['huggingface-llama', { num_attention_heads: 3 }, 'num_attention_heads is 3', 'a divisor of 20'],
  ['huggingface-llama', { num_key_value_heads: 3 }, 'num_key_value_heads is 3', 'a divisor of 4'],
  [
    'huggingface-qwen2',
    // 32, transformers' default for key-value heads, does not divide the number of heads
    { num_key_value_heads: undefined },
    'num_key_value_heads is missing',
    'a divisor of',
  ],
  [
    'huggingface-llama',
    ropeWith({ rope_type: 'dynamic' }),
    'positions of the rope type "dynamic"',
    'default or linear or llama3 or yarn',
  ],
  [
    'huggingface-llama',
    ropeWith({ high_freq_factor: undefined }),
    'rope_parameters is',
    'above 0 as high_freq_factor',
  ],
  ['huggingface-llama', ropeWith({ low_freq_factor: 4 }), 'rope_parameters is', 'above low_freq_factor'],
  ['huggingface-llama', ropeWith({ extrapolation_factor: 2 }), 'extrapolation_factor', 'rope_theta'],
  [
    'huggingface-llama',
    ropeWith({ partial_rotary_factor: 0.5 }),
    'a part of each head',
    'partial_rotary_factor of 1',
  ],
  ['huggingface-llama', { partial_rotary_factor: 0.5 }, 'a part of each head', 'partial_rotary_factor 1'],
  [
    'huggingface-llama',
    { rope_theta: 5e5 },
    'rope_parameters is',
    'the rope_theta 500000 of the other fields',
  ],
  [
    'huggingface-llama',
    { rope_scaling: { rope_type: 'linear', factor: 2 } },
    'rope_parameters is',
    'other fields',
  ],
  [
    'huggingface-llama-bias',
    { rope_parameters: { rope_type: 'linear', factor: 0 } },
    'rope_parameters is',
    'a number above 0 as factor',
  ],
  [
    'huggingface-llama',
    { rope_parameters: { full_attention: {} } },
    'full_attention of its positions',
    'rope_theta',
  ],
  ['huggingface-llama', { rope_scaling: 8 }, 'rope_scaling is 8', 'an object or null'],
  ['huggingface-llama', { sliding_window: 8 }, 'sliding-window attention', 'sliding_window false'],
  ['huggingface-llama', { num_local_experts: 8 }, 'a mixture of experts', 'num_local_experts false'],
  ['huggingface-qwen3', { use_sliding_window: false }, 'a window that it does not have', 'full_attention'],
  [
    'huggingface-qwen3',
    { layer_types: undefined, max_window_layers: 1, num_hidden_layers: 1e9 },
    'num_hidden_layers is 1000000000',
    'at most 10000',
  ],
  ['huggingface-smollm3', { no_rope_layers: [1, 0] }, 'no_rope_layers is', '0 or 1 for each of 4 layers'],
  ['huggingface-llama', { partial_rotary_factor: 0.5 }, 'a part of each head', 'partial_rotary_factor'],
  ['huggingface-llama', { final_logit_softcapping: 30 }, 'soft caps of logits', 'final_logit_softcapping'],
  ['huggingface-stablelm', { qk_layernorm: true }, 'a norm for each head', 'false'],
  [
    'huggingface-stablelm',
    { use_parallel_residual: true },
    'attention next to the feed-forward layer',
    'use_parallel_residual false',
  ],
  ['huggingface-smollm3', { no_rope_layers: [1, 0, 1, 2] }, 'no_rope_layers is', '0 or 1'],
  ['huggingface-qwen3', { layer_types: ['linear_attention'] }, 'layer_types is', 'each of 2 layers'],
  ['huggingface-llama', { no_rope_layers: [1, 0] }, 'layers without positions', 'no_rope_layers'],
  ['huggingface-llama', { quantization_config: { bits: 4 } }, 'quantized weights', 'quantization_config'],
  ['huggingface-llama', { model_type: 'cohere' }, 'LayerNorm without biases', '"llama" or "mistral"'],
  ['huggingface-llama', { model_type: 'own' }, 'model_type is "own"', '"gpt2" or "llama" or "mistral"'],
])('refuses %s with %j, by name', async (name, change, message, expected) => {
  await expect(readChanged(name, change)).rejects.toMatchObject({
    code: 'MTL_HUGGING_FACE_CONFIG',
    exitCode: 2,
    message: expect.stringContaining(message) as string,
    expected: expect.stringContaining(expected) as string,
  });
});

it.each<[FixtureName, Fields, string]>([
  ['huggingface-llama', { tie_word_embeddings: true, num_hidden_layers: 3 }, 'tensor model.layers.2.'],
  ['huggingface-smollm', { tie_word_embeddings: false }, 'tensor lm_head.weight not found'],
  [
    'huggingface-llama-bias',
    { attention_bias: false, mlp_bias: false },
    'tensors that this model does not have',
  ],
  ['huggingface-llama', { intermediate_size: 2 ** 31 }, 'gate_proj.weight has the shape [26, 20]'],
  ['huggingface-qwen2', { model_type: 'llama' }, 'self_attn.q_proj.bias'],
])('refuses weights of %s that differ from its config.json: %j', async (name, change, message) => {
  await expect(readChanged(name, change)).rejects.toMatchObject({
    code: 'MTL_HUGGING_FACE_WEIGHTS',
    message: expect.stringContaining(message) as string,
  });
});

it.each([
  ['a GPT-2 lacks squaredRelu true', { squaredRelu: true }],
  ['a GPT-2 lacks windowSize 4,0', { windowSize: '4,0' }],
  ['a GPT-2 lacks qkLayernorm true', { qkLayernorm: true }],
  ['a Qwen2 lacks rotaryPercent 0.7', llamaVariants],
])('is not written for transformers: %s', async (what, variants) => {
  const model = { ...smallGpt, ...variants };
  const written = writeHuggingFaceGpt({ directory: '/nowhere/model', model, tensors: [] });
  await expect(written).rejects.toMatchObject({
    code: 'MTL_HUGGING_FACE_CONFIG',
    message: expect.stringContaining(what) as string,
  });
});
