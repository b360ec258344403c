import { execFileSync } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allocateParameters } from '@mtl/autograd';
import {
  hostTensor,
  type LogicalTensor,
  SafetensorsDirectory,
  writeSafetensorsDirectory,
} from '@mtl/checkpoint';
import type { MtlError } from '@mtl/errors';
import { GptStage } from '@mtl/models';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parameterTensors, readHuggingFaceGpt, writeHuggingFaceGpt } from '../src/index.js';
import { fixtureDirectory, gpt2Names, loadModel } from './huggingface-fixture.js';

let scratch: string;
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'huggingface-'));
});
afterEach(async () => {
  await rm(scratch, { recursive: true });
});

/** All tensors of a directory as bytes, by name. */
async function contents(
  directory: string,
): Promise<Map<string, { dtype: string; shape: readonly number[]; bytes: Buffer }>> {
  const weights = await SafetensorsDirectory.open(directory);
  const all = new Map();
  for (const [name, { dtype, shape }] of weights.tensors) {
    all.set(name, { dtype, shape, bytes: Buffer.from(await weights.read({ name })) });
  }
  await weights.close();
  return all;
}

/** A copy of the tied fixture whose tensors are changed. */
async function rewritten(
  change: (name: string, tensor: { dtype: string; shape: readonly number[]; bytes: Buffer }) => object[],
): Promise<string> {
  const directory = join(scratch, 'rewritten');
  await cp(fixtureDirectory('huggingface-gpt2'), directory, { recursive: true });
  await rm(join(directory, 'model.safetensors'));
  const tensors = [...(await contents(fixtureDirectory('huggingface-gpt2')))].flatMap(([name, tensor]) =>
    change(name, tensor).map((changed) => {
      const all = { name, ...tensor, ...changed };
      return { ...all, dtype: all.dtype as 'F32', read: () => all.bytes };
    }),
  );
  await writeSafetensorsDirectory({ directory, tensors });
  return directory;
}

describe('weights that are read into the memory of parameters', () => {
  const fixture = fixtureDirectory('huggingface-gpt2');
  const readValues = ({ parameters }: GptStage) =>
    new Map(parameters.map(({ name, data }) => [name, data.read()]));

  it('are those that are copied to them, also where the file has them at odd offsets', async () => {
    const directory = join(scratch, 'odd');
    await cp(fixture, directory, { recursive: true });
    const path = join(directory, 'model.safetensors');
    const whole = await readFile(path);
    const headerBytes = Number(whole.readBigUInt64LE());
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(headerBytes + 1));
    const [header, data] = [whole.subarray(8, 8 + headerBytes), whole.subarray(8 + headerBytes)];
    await writeFile(path, Buffer.concat([length, header, Buffer.from(' '), data]));

    const lent = await loadModel(directory);
    // the padding rows after the rows of the file must be written too: memory for inference is not cleared
    for (const { data: tensor } of lent.stage.parameters) tensor.write(new Float32Array(tensor.size).fill(7));
    await lent.source.load(parameterTensors(lent.stage.parameters));
    const copied = await loadModel(fixture);
    const { parameters } = copied.stage;
    for (const { data: tensor } of parameters) tensor.zero();
    await copied.source.load(parameterTensors(parameters).map(({ withMemory, ...tensor }) => tensor));
    expect(readValues(lent.stage)).toEqual(readValues(copied.stage));
    lent.dispose();
    copied.dispose();
  });

  it('are refused by an error when the file shrinks meanwhile, and are loaded by the next attempt', async () => {
    const directory = join(scratch, 'shrinking');
    await cp(fixture, directory, { recursive: true });
    const path = join(directory, 'model.safetensors');
    const { size } = await stat(path);
    const { source, stage, dispose } = await loadModel(directory);
    const loaded = readValues(stage);
    const tensors = parameterTensors(stage.parameters);
    const [first, ...rest] = tensors as [LogicalTensor, ...LogicalTensor[]];
    const shrinks = {
      ...first,
      withMemory: async (fill: (memory: Uint8Array) => Promise<void>) => {
        await truncate(path, size - 4);
        await first.withMemory!(fill);
      },
    };
    const cutOff = { code: 'MTL_CHECKPOINT_CORRUPT', message: expect.stringContaining('ends at byte') };
    await expect(source.load([shrinks, ...rest])).rejects.toMatchObject(cutOff);
    await cp(join(fixture, 'model.safetensors'), path);
    await source.load(tensors);
    expect(readValues(stage)).toEqual(loaded);
    dispose();
  });
});

describe.each(gpt2Names)('%s', (name) => {
  it('comes back bit for bit when saved in its dtype', async () => {
    const { source, stage, dispose } = await loadModel(fixtureDirectory(name));
    const directory = join(scratch, 'saved');
    await writeHuggingFaceGpt({
      directory,
      model: source.configuration,
      tensors: parameterTensors(stage.parameters),
      dtype: source.dtype === 'bfloat16' ? 'BF16' : 'F32',
      endTokens: source.endTokens,
    });
    expect(await contents(directory)).toEqual(await contents(fixtureDirectory(name)));
    const again = await readHuggingFaceGpt({ directory, makeVocabularySizeDivisibleBy: 16 });
    expect(again.configuration).toEqual(source.configuration);
    expect([again.dtype, again.endTokens]).toEqual([source.dtype, [0]]);
    expect((await readdir(scratch)).sort()).toEqual(['saved']);
    dispose();
  });

  it('writes the config.json that transformers wrote', async () => {
    const { source, stage, dispose } = await loadModel(fixtureDirectory(name));
    const directory = join(scratch, 'saved');
    const { configuration: model, endTokens } = source;
    await writeHuggingFaceGpt({ directory, model, tensors: parameterTensors(stage.parameters), endTokens });
    const read = async (path: string) =>
      JSON.parse(await readFile(join(path, 'config.json'), 'utf8')) as Record<string, unknown>;
    const [ours, theirs] = [await read(directory), await read(fixtureDirectory(name))];
    const different = Object.keys(ours).filter((key) => ours[key] !== theirs[key] && key !== 'architectures');
    // weights were requested in float32; n_inner is null in the original if it equals 4 n_embd
    expect(different.sort()).toEqual(
      name === 'huggingface-erf' ? ['dtype', 'torch_dtype'] : ['n_inner', 'torch_dtype'],
    );
    dispose();
  });
});

describe('readHuggingFaceGpt', () => {
  it('reads the configuration', async () => {
    const { configuration, endTokens, generationDefaults, notices } = await readHuggingFaceGpt({
      directory: fixtureDirectory('huggingface-erf'),
    });
    expect(configuration).toEqual({
      numLayers: 2,
      hiddenSize: 16,
      ffnHiddenSize: 24,
      numAttentionHeads: 2,
      maxPositionEmbeddings: 24,
      vocabularySize: 53,
      makeVocabularySizeDivisibleBy: 128,
      tieEmbeddings: false,
      layerNormEpsilon: 1e-3,
      geluKind: 'erf',
      hiddenDropout: 0.1,
      attentionDropout: 0.1,
      initMethodStd: 0.02,
    });
    expect(endTokens).toEqual([0]);
    expect(generationDefaults).toMatchObject({ eos_token_id: 0 });
    expect(notices).toEqual([]);
  });

  it('loads names without prefix, causal masks of older versions, a stored tied head and half precision', async () => {
    const directory = await rewritten((name, { bytes }) => {
      const base = name.replace('transformer.', '');
      if (base === 'wte.weight') return [{ name: base }, { name: 'lm_head.weight' }];
      if (base === 'h.0.ln_1.bias') {
        const mask = { dtype: 'BOOL', shape: [1, 1, 2, 2], bytes: Buffer.alloc(4) };
        return [{ name: base }, { name: 'h.0.attn.bias', ...mask }];
      }
      if (base === 'h.1.mlp.c_fc.bias') {
        const values = new Float32Array(Uint8Array.from(bytes).buffer);
        const wide = Float64Array.from(values);
        return [{ name: base, dtype: 'F64', bytes: Buffer.from(wide.buffer) }];
      }
      return [{ name: base }];
    });
    const [plain, changed] = [
      await loadModel(fixtureDirectory('huggingface-gpt2')),
      await loadModel(directory),
    ];
    plain.stage.parameters.forEach((parameter, index) => {
      expect(changed.stage.parameters[index]!.data.toArray()).toEqual(parameter.data.toArray());
    });
    plain.dispose();
    changed.dispose();
  });

  it('fills any slice of a tensor, and pads the vocabulary with zeros', async () => {
    const { stage, dispose } = await loadModel(fixtureDirectory('huggingface-gpt2'));
    const whole = new Map(stage.parameters.map((parameter) => [parameter.name, parameter.data.toArray()]));
    const source = await readHuggingFaceGpt({
      directory: fixtureDirectory('huggingface-gpt2'),
      makeVocabularySizeDivisibleBy: 16,
    });
    const part = (name: string, globalShape: number[], ends: [number, number][]) => {
      const slices = ends.map(([start, end]) => ({ start, end }));
      const values = new Float32Array(slices.reduce((size, { start, end }) => size * (end - start), 1));
      const memory = new Uint8Array(values.buffer);
      return { values, tensor: hostTensor({ name, dtype: 'F32', globalShape, slices, memory }) };
    };
    // the second of two tensor-parallel ranks
    const heads = part(
      'decoder.layers.1.self_attention.linear_qkv.weight',
      [4, 3, 8, 32],
      [
        [2, 4],
        [0, 3],
        [0, 8],
        [0, 32],
      ],
    );
    const columns = part(
      'decoder.layers.1.self_attention.linear_proj.weight',
      [32, 32],
      [
        [0, 32],
        [16, 32],
      ],
    );
    const rows = part(
      'embedding.word_embeddings.weight',
      [112, 32],
      [
        [56, 112],
        [0, 32],
      ],
    );
    await source.load([heads.tensor, columns.tensor, rows.tensor]);
    const readValues = (name: string): number[] => whole.get(name)!;
    expect([...heads.values]).toEqual(readValues(heads.tensor.name).slice(heads.values.length));
    const projection = readValues(columns.tensor.name);
    expect([...columns.values]).toEqual(projection.filter((_, index) => index % 32 >= 16));
    const table = readValues(rows.tensor.name);
    expect([...rows.values]).toEqual(table.slice(56 * 32));
    expect(rows.values.subarray((101 - 56) * 32).every((value) => value === 0)).toBe(true);
    expect(rows.values.subarray(0, (101 - 56) * 32).some((value) => value === 0)).toBe(false);
    dispose();
  });

  it.each<[string, object, ReadonlyArray<string | RegExp>]>([
    [
      'a Gemma',
      { model_type: 'gemma', rope_theta: 1e4, rms_norm_eps: 1e-6, num_key_value_heads: 2 },
      [
        'model_type is "gemma"',
        /it needs feed-forward layers gated by GELU, scaled embeddings, and .* less 1$/,
      ],
    ],
    [
      'a GPT-NeoX',
      { model_type: 'gpt_neox', rotary_pct: 0.25 },
      [/it needs attention next to the feed-forward layer$/],
    ],
    [
      'an unknown model with the blocks of a Llama',
      { model_type: 'own', rope_theta: 1e4, rms_norm_eps: 1e-6, num_key_value_heads: 2, head_dim: 5 },
      [/it needs an architecture that is not here$/],
    ],
    [
      'an unknown model with experts',
      { model_type: 'own', rope_theta: 1e4, num_experts: 8 },
      [/it needs a mixture of experts \(num_experts is 8\)$/],
    ],
    ['an unknown model', { model_type: 'own' }, ['model_type is "own"', 'an architecture that is not here']],
    ['rotary positions', { rope_scaling: { factor: 2 } }, ['rotary position embeddings (rope_scaling is']],
    ['fewer key heads', { num_key_value_heads: 2 }, ['grouped-query attention']],
    ['experts', { num_local_experts: 8 }, ['a mixture of experts (num_local_experts is 8)']],
    ['another activation', { activation_function: 'relu' }, ['activation_function is "relu"']],
    ['a BERT', { model_type: 'bert' }, ['a BERT, where a GPT-2, a Llama or a model like them is wanted']],
  ])('refuses %s with what it needs, and asks for no other files', async (_, change, reasons) => {
    const path = join(fixtureDirectory('huggingface-gpt2'), 'config.json');
    const config = JSON.parse(await readFile(path, 'utf8')) as object;
    await writeFile(join(scratch, 'config.json'), JSON.stringify({ ...config, ...change }));
    const error = await readHuggingFaceGpt({ directory: scratch }).then(
      () => undefined,
      (thrown: MtlError) => thrown,
    );
    expect(error).toMatchObject({ code: 'MTL_HUGGING_FACE_CONFIG', exitCode: 2 });
    for (const reason of reasons) {
      if (typeof reason === 'string') expect(error!.message).toContain(reason);
      else expect(error!.message).toMatch(reason);
    }
    expect(error!.remedy).not.toContain('whole and unchanged');
  });

  it('takes fields that ask for what is computed anyway', async () => {
    await cp(fixtureDirectory('huggingface-gpt2'), scratch, { recursive: true });
    const path = join(fixtureDirectory('huggingface-gpt2'), 'config.json');
    const config = JSON.parse(await readFile(path, 'utf8')) as { n_head: number };
    const same = { num_key_value_heads: config.n_head, sliding_window: null, is_encoder_decoder: false };
    await writeFile(join(scratch, 'config.json'), JSON.stringify({ ...config, ...same }));
    expect((await readHuggingFaceGpt({ directory: scratch })).configuration.numAttentionHeads).toBe(
      config.n_head,
    );
  });

  it.each([
    ['another model', { model_type: 'gpt_neo' }, 'model_type is "gpt_neo"', '"gpt2"'],
    ['no model type', { model_type: undefined }, 'model_type is missing', 'a string'],
    ['no size', { n_embd: undefined }, 'n_embd is missing', 'a positive integer'],
    ['a size of 0', { n_layer: 0 }, 'n_layer is 0', 'a positive integer'],
    ['a size that is a string', { vocab_size: '50257' }, 'vocab_size is "50257"', 'a positive integer'],
    ['heads that do not divide', { n_head: 5 }, 'n_head is 5', 'a divisor of 32'],
    ['another activation', { activation_function: 'relu' }, 'activation_function is "relu"', 'gelu_new'],
    [
      'an activation of Object',
      { activation_function: 'toString' },
      'activation_function is "toString"',
      'gelu',
    ],
    ['unscaled attention', { scale_attn_weights: false }, 'scale_attn_weights is false', 'true'],
    [
      'layer-wise scaling',
      { scale_attn_by_inverse_layer_idx: true },
      'scale_attn_by_inverse_layer_idx',
      'false',
    ],
    ['cross attention', { add_cross_attention: true }, 'add_cross_attention is true', 'false'],
    ['an epsilon of 0', { layer_norm_epsilon: 0 }, 'layer_norm_epsilon is 0', 'above 0'],
    ['a dropout of 1', { resid_pdrop: 1 }, 'resid_pdrop is 1', 'below 1'],
    ['an end token that is none', { eos_token_id: 'x' }, 'eos_token_id is "x"', 'a token id'],
  ])('refuses %s with one error that names what was expected', async (_, change, message, expected) => {
    const path = join(fixtureDirectory('huggingface-gpt2'), 'config.json');
    const config = JSON.parse(await readFile(path, 'utf8')) as object;
    await writeFile(join(scratch, 'config.json'), JSON.stringify({ ...config, ...change }));
    await expect(readHuggingFaceGpt({ directory: scratch })).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_CONFIG',
      exitCode: 2,
      message: expect.stringContaining(message),
      expected: expect.stringContaining(expected),
    });
  });

  it.each([
    ['is missing', undefined],
    ['is truncated', '{"model_type": "gpt2", '],
    ['is a list', '[]'],
  ])('refuses a config.json that %s', async (_, text) => {
    if (text !== undefined) await writeFile(join(scratch, 'config.json'), text);
    await expect(readHuggingFaceGpt({ directory: scratch })).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_CONFIG',
    });
  });

  it.each([
    ['a missing tensor', 'ln_f.bias', () => [], 'tensor transformer.ln_f.bias not found'],
    ['another shape', 'ln_f.bias', () => [{ shape: [16, 2] }], '[16, 2]'],
    ['a dtype without values', 'ln_f.bias', () => [{ dtype: 'I32' }], 'I32'],
    ['a tensor too many', 'ln_f.bias', () => [{}, { name: 'score.weight' }], 'score.weight'],
  ])('refuses %s before a model is built', async (_, target, change, message) => {
    const directory = await rewritten((name) => (name.endsWith(target) ? change() : [{}]));
    await expect(readHuggingFaceGpt({ directory })).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_WEIGHTS',
      message: expect.stringContaining(message),
    });
  });

  it.each([
    [{ vocab_size: 20_000_000 }, '[101, 32]'],
    [{ n_embd: 2 ** 52 }, '[101, 32]'],
    [{ n_layer: 2 ** 31 }, `config.json declares ${2 ** 31} layers`],
    [{ n_positions: 2 ** 31 }, 'wpe.weight has the shape'],
    [{ n_inner: 2 ** 31 }, 'mlp.c_fc.weight has the shape'],
  ])('refuses sizes that the weights do not have, %j, before memory is taken', async (change, message) => {
    const directory = await rewritten(() => [{}]);
    const path = join(directory, 'config.json');
    const config = JSON.parse(await readFile(path, 'utf8')) as object;
    await writeFile(path, JSON.stringify({ ...config, ...change }));
    await expect(readHuggingFaceGpt({ directory })).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_WEIGHTS',
      message: expect.stringContaining(message),
    });
  });

  it('refuses a FIFO in place of config.json at once', async () => {
    const directory = await rewritten(() => [{}]);
    await rm(join(directory, 'config.json'));
    execFileSync('mkfifo', [join(directory, 'config.json')]);
    await expect(readHuggingFaceGpt({ directory })).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_CONFIG',
      message: expect.stringContaining('is a FIFO'),
    });
  });

  it('refuses tensors of a model that was built differently', async () => {
    const source = await readHuggingFaceGpt({ directory: fixtureDirectory('huggingface-gpt2') });
    const tensor = (name: string, rows: number) =>
      hostTensor({ name, dtype: 'F32', globalShape: [rows, 32], memory: new Uint8Array(rows * 128) });
    await expect(source.load([tensor('embedding.position_embeddings.weight', 64)])).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_SHAPE',
      message: expect.stringContaining('[32, 32]'),
    });
    await expect(source.load([tensor('embedding.position_embedding.weight', 32)])).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_TENSOR',
      expected: 'embedding.position_embeddings.weight',
    });
  });
});

describe('writeHuggingFaceGpt', () => {
  it('writes shards above a size and copies the tokenizer', async () => {
    const { source, stage, dispose } = await loadModel(fixtureDirectory('huggingface-gpt2'));
    const tokenizer = join(scratch, 'my-tokenizer.json');
    await writeFile(tokenizer, '{"version":"1.0"}');
    const directory = join(scratch, 'saved');
    await writeHuggingFaceGpt({
      directory,
      model: source.configuration,
      tensors: parameterTensors(stage.parameters),
      tokenizerFiles: { 'tokenizer.json': tokenizer, 'merges.txt': { contents: '#version: 0.2\n' } },
      maxShardBytes: 40_000,
    });
    const files = (await readdir(directory)).sort();
    expect(files.filter((name) => !name.startsWith('model-'))).toEqual([
      'config.json',
      'generation_config.json',
      'merges.txt',
      'model.safetensors.index.json',
      'tokenizer.json',
    ]);
    expect(await readFile(join(directory, 'merges.txt'), 'utf8')).toBe('#version: 0.2\n');
    expect(files.length).toBeGreaterThan(6);
    expect(await contents(directory)).toEqual(await contents(fixtureDirectory('huggingface-gpt2')));
    const again = await readHuggingFaceGpt({ directory });
    expect(again.tokenizerFiles).toEqual({
      'tokenizer.json': join(directory, 'tokenizer.json'),
      'merges.txt': join(directory, 'merges.txt'),
    });
    expect(again.endTokens).toEqual([]);
    dispose();
  });

  it('writes files into folders of the directory, and none outside of it', async () => {
    const { source, stage, dispose } = await loadModel(fixtureDirectory('huggingface-gpt2'));
    const saved = async (name: string): Promise<string> => {
      const directory = join(scratch, 'saved');
      const tokenizerFiles = { [name]: { contents: 'text' } };
      const tensors = parameterTensors(stage.parameters);
      await writeHuggingFaceGpt({ directory, model: source.configuration, tensors, tokenizerFiles });
      return directory;
    };
    for (const name of ['../other.jinja', 'folder/../../other.jinja', '..', join(scratch, 'other.jinja')]) {
      await expect(saved(name), name).rejects.toMatchObject({ code: 'MTL_HUGGING_FACE_FILE_NAME' });
    }
    expect(await readdir(scratch)).toEqual([]);
    const directory = await saved('additional_chat_templates/tool_use.jinja');
    expect(await readFile(join(directory, 'additional_chat_templates/tool_use.jinja'), 'utf8')).toBe('text');
    dispose();
  });

  it('leaves a directory that holds something as it is, and nothing behind when it fails', async () => {
    const { source, stage, dispose } = await loadModel(fixtureDirectory('huggingface-gpt2'));
    const tensors = parameterTensors(stage.parameters);
    const full = join(scratch, 'full');
    await cp(fixtureDirectory('huggingface-erf'), full, { recursive: true });
    const before = await readdir(full);
    const model = source.configuration;
    await expect(writeHuggingFaceGpt({ directory: full, model, tensors })).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_EXISTS',
    });
    const directory = join(scratch, 'new');
    await expect(writeHuggingFaceGpt({ directory, model, tensors: tensors.slice(1) })).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_TENSOR',
      message: expect.stringContaining('embedding.word_embeddings.weight'),
    });
    const tokenizerFiles = { 'tokenizer.json': join(scratch, 'nowhere') };
    await expect(writeHuggingFaceGpt({ directory, model, tensors, tokenizerFiles })).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_IO',
    });
    expect(await readdir(full)).toEqual(before);
    expect(await readdir(scratch)).toEqual(['full']);
    dispose();
  });
});

describe('parameterTensors', () => {
  it('rounds weights to the compute dtype and back', async () => {
    const { stage, dispose } = await loadModel(fixtureDirectory('huggingface-erf'), { dtype: 'bfloat16' });
    const exact = await loadModel(fixtureDirectory('huggingface-erf'));
    stage.parameters.forEach((parameter, index) => {
      expect(parameter.data.dtype).toBe('bfloat16');
      // the file is in bfloat16, so nothing is lost
      expect(parameter.data.toArray()).toEqual(exact.stage.parameters[index]!.data.toArray());
    });
    dispose();
    exact.dispose();
  });

  it('refuses dtypes that files do not hold', async () => {
    const { configuration: model } = await readHuggingFaceGpt({
      directory: fixtureDirectory('huggingface-gpt2'),
    });
    const stage = new GptStage({ model, device: 'reference', dtype: 'float64', seed: 1 });
    const storage = allocateParameters(stage.parameters, { device: 'reference', dtype: 'float64' });
    expect(() => parameterTensors(stage.parameters)).toThrow(expect.objectContaining({ code: 'MTL_DTYPE' }));
    storage.dispose();
  });
});
