import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { allocateParameters, initializeParameter } from '@mtl/autograd';
import { SafetensorsFile } from '@mtl/checkpoint';
import {
  isAdapter,
  mergedWeights,
  parameterTensors,
  readHuggingFaceGpt,
  readLoraConfiguration,
  readLoraDirectory,
  specifyLora,
  writeLoraDirectory,
} from '@mtl/formats';
import { numLiveTensors } from '@mtl/kernels';
import { GptLanguageModel, GptStage, sequenceFirst } from '@mtl/models';
import { Adamw, createStores, ModelOptimizer } from '@mtl/optimizer';
import { digestOfDirectory } from '@mtl/tooling/digest-of-directory';
import { weightTensors } from '@mtl/trainer';
import { afterAll, describe, expect, it } from 'vitest';

/** The results that tooling/fixtures/lora.py wrote next to adapters. */
interface Expected {
  readonly tokens: readonly (readonly number[])[];
  readonly logits: readonly (readonly (readonly number[])[])[];
  readonly learningRate: number;
  readonly weightDecay: number;
  readonly losses: readonly number[];
}

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../formats/fixtures/${name}`, import.meta.url));
const readExpected = (name: string): Expected =>
  JSON.parse(readFileSync(join(fixture(name), 'expected.json'), 'utf8')) as Expected;

const directory = mkdtempSync(join(tmpdir(), 'mtl-peft-'));
afterAll(() => rmSync(directory, { recursive: true }));

/** Returns a base model with adapters, as --load-hf and --load-lora load them, and its optimizer. */
async function openAdapted(base: string, adapters: string) {
  const source = await readHuggingFaceGpt({ directory: fixture(base), makeVocabularySizeDivisibleBy: 16 });
  const model = { ...source.configuration, hiddenDropout: 0, attentionDropout: 0 };
  const found = await readLoraDirectory({ directory: adapters, model });
  const lora = specifyLora(found.configuration, model);
  const stage = new GptStage({ model, lora, device: 'cpu', dtype: 'float32', seed: 1 });
  const stores = createStores(stage.parameters, { device: 'cpu', dtype: 'float32' });
  const { learningRate, weightDecay } = readExpected('lora-llama');
  const optimizer = new ModelOptimizer(stores, {
    optimizer: new Adamw({ beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }),
    weightDecay,
    clipGrad: 0,
  });
  const tensors = weightTensors(optimizer);
  await source.load(tensors.filter(({ name }) => !isAdapter(name)));
  await found.load(tensors.filter(({ name }) => isAdapter(name)));
  const dispose = (): void => {
    optimizer.dispose();
    stage.dispose();
  };
  return { model, configuration: found.configuration, stage, optimizer, tensors, learningRate, dispose };
}

/** Returns the logits after each token of a sample. */
function computeLogits(stage: GptStage, tokens: readonly number[]): number[][] {
  const model = new GptLanguageModel(stage);
  const cache = model.newCache({ batchSize: tokens.length, capacity: tokens.length });
  const sequences = tokens.map((_, slot) => ({ slot, tokens: Int32Array.from(tokens.slice(0, slot + 1)) }));
  const logits = model.forward({ cache, sequences });
  cache.dispose();
  return tokens.map((_, row) => [
    ...logits.slice(row * model.vocabularySize, (row + 1) * model.vocabularySize),
  ]);
}

const largestDifference = (left: readonly (readonly number[])[], right: readonly (readonly number[])[]) =>
  Math.max(...left.flatMap((row, at) => row.map((value, column) => Math.abs(value - right[at]![column]!))));

/**
 * The digest of our output. On 2026-11-24, and for experts on 2026-11-28, PEFT 0.21.0 (transformers 5.18.0,
 * PyTorch 2.13.0) loaded it and computed the logits of the fixture with: `tooling/fixtures/lora.py --check`.
 */
const bases = [
  ['lora-llama', 'huggingface-llama', '5e7746e84c54e079da24e9639bf9f4dc9747d095edad39c331205c88ba898cea'],
  ['lora-gpt2', 'huggingface-gpt2', '9808640858130213107d21eafd05d82a4075a04213869238e041d3bbdda33806'],
  ['lora-mixtral', 'huggingface-mixtral', '7f346f871786726c0d3a9f0a6fa4508f3b5d15d2abf796ce5c77ac67b2b01b91'],
  [
    'lora-qwen3-moe',
    'huggingface-qwen3-moe',
    '21983fec97f180dd6a1bec6951df4f510223023e0636f798d9cb891681c75e31',
  ],
  ['lora-olmoe', 'huggingface-olmoe', '465986f12abee4110732fb1df64b1f598dd4a1ee601b949933bc63cd6cc5c707'],
] as const;

describe.each(bases)('%s', (name, base, checked) => {
  const expected = readExpected(name);

  it("computes PEFT's logits, and the same with merged weights", async () => {
    const before = numLiveTensors();
    const adapted = await openAdapted(base, fixture(name));
    const { model, configuration: lora } = adapted;
    const merged = new GptStage({ model, device: 'cpu', dtype: 'float32', seed: 1 });
    const storage = allocateParameters(merged.parameters, { device: 'cpu', dtype: 'float32' });
    const targets = new Map(parameterTensors(merged.parameters).map((tensor) => [tensor.name, tensor]));
    for (const tensor of mergedWeights(adapted.tensors, { model, lora })) {
      await targets.get(tensor.name)!.write(await tensor.read());
    }
    expected.tokens.forEach((tokens, sample) => {
      const logits = computeLogits(adapted.stage, tokens);
      // float32 in two libraries, logits up to 20
      expect(largestDifference(logits, expected.logits[sample]!)).toBeLessThan(1e-4);
      // float32 rounding of merged adapters
      expect(largestDifference(logits, computeLogits(merged, tokens))).toBeLessThan(1e-4);
    });
    adapted.dispose();
    merged.dispose();
    storage.dispose();
    expect(numLiveTensors()).toBe(before);
  });

  it("trains with PEFT's losses, and leaves the base as it is", async () => {
    const { stage, optimizer, learningRate, dispose } = await openAdapted(base, fixture(name));
    const { tokens: rows } = expected;
    const [batchSize, sequenceLength] = [rows.length, rows[0]!.length];
    const size = batchSize * sequenceLength;
    const frozen = stage.parameters.filter(({ isFrozen }) => isFrozen);
    const valuesBefore = frozen.map(({ data }) => data.toArray());
    expect(frozen.some(({ hasMainGradient }) => hasMainGradient)).toBe(false);
    const losses = expected.losses.map(() => {
      const batch = sequenceFirst({
        batchSize,
        sequenceLength,
        tokens: Int32Array.from(rows.flat()),
        // labels are the next tokens; the last token of a sample has none
        labels: Int32Array.from(rows.flatMap((row) => [...row.slice(1), 0])),
        lossMask: Float32Array.from({ length: size }, (_, at) => Number((at + 1) % sequenceLength !== 0)),
        positionIds: Int32Array.from({ length: size }, (_, index) => index % sequenceLength),
        sampleNumbers: Float64Array.from({ length: batchSize }, (_, index) => index),
        keyStart: undefined,
      });
      const factor = 1 / (batchSize * (sequenceLength - 1));
      stage.forward({ microBatch: 0, batch, lossFactors: { lm_loss: factor } });
      stage.backwardInput({ microBatch: 0, weights: true });
      const [taken] = stage.takeLosses(0);
      // [S, B], without the last position
      const counted = taken!.losses.toArray().slice(0, batchSize * (sequenceLength - 1));
      taken!.dispose();
      optimizer.step({ learningRate });
      return factor * counted.reduce((sum, loss) => sum + loss, 0);
    });
    losses.forEach((loss, step) => {
      const reference = expected.losses[step]!;
      // the bound of losses in float32 against PyTorch (llama-training.test.ts)
      expect(Math.abs(loss / reference - 1), `step ${step}`).toBeLessThan(1e-5);
    });
    expect(frozen.map(({ data }) => data.toArray())).toEqual(valuesBefore);
    dispose();
  });

  it('comes back to the bit through our directory', async () => {
    const { model, configuration: lora, tensors, dispose } = await openAdapted(base, fixture(name));
    const written = join(process.env.MTL_TEST_WRITTEN ?? directory, name);
    await writeLoraDirectory({ directory: written, model, lora, tensors, baseModel: base });
    expect(await readLoraConfiguration(written)).toEqual(lora);
    const files = [fixture(name), written].map((folder) => join(folder, 'adapter_model.safetensors'));
    const [theirs, ours] = await Promise.all(files.map(contents));
    expect(ours).toEqual(theirs);
    const config = (folder: string): Record<string, unknown> =>
      JSON.parse(readFileSync(join(folder, 'adapter_config.json'), 'utf8')) as Record<string, unknown>;
    // lists may have any order; the version must know parameters of experts
    const {
      target_modules: layers,
      target_parameters: parameters,
      peft_version: _,
      ...others
    } = config(written);
    const { target_modules: theirLayers, target_parameters: theirParameters } = config(fixture(name));
    expect([...(layers as string[])].sort()).toEqual(theirLayers);
    expect([...((parameters as string[]) ?? [])].sort()).toEqual(theirParameters ?? []);
    expect(config(fixture(name))).toMatchObject(others);
    dispose();
    const folder = 'packages/formats/fixtures';
    expect(
      digestOfDirectory(written),
      `other bytes than PEFT has loaded: run this test with MTL_TEST_WRITTEN=DIR, then python3 tooling/fixtures/lora.py --check DIR/${name} ${folder}/${base} ${folder}/${name}; if it passes, put the digest here with the new date`,
    ).toBe(checked);
  });
});

async function contents(path: string): Promise<Record<string, string>> {
  const file = await SafetensorsFile.open(path);
  const all: Record<string, string> = {};
  for (const [name, { dtype, shape }] of [...file.tensors].sort()) {
    all[name] = `${dtype} ${shape} ${Buffer.from(await file.read({ name })).toString('base64')}`;
  }
  await file.close();
  return all;
}

/** Makes a copy of adapters of PEFT with changed fields; undefined fields are left out. */
function changedAdapters(fields: Readonly<Record<string, unknown>>, name = 'lora-llama'): string {
  const changed = join(directory, 'changed');
  rmSync(changed, { recursive: true, force: true });
  cpSync(fixture(name), changed, { recursive: true });
  const path = join(changed, 'adapter_config.json');
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), ...fields }));
  return changed;
}

it.each([
  [{ use_dora: true }, 'MTL_HUGGING_FACE_CONFIG', /use_dora is true/],
  [{ rank_pattern: { q_proj: 4 } }, 'MTL_HUGGING_FACE_CONFIG', /rank_pattern/],
  [{ init_lora_weights: 'pissa' }, 'MTL_HUGGING_FACE_CONFIG', /init_lora_weights/],
  [{ lora_dropout: 1 }, 'MTL_HUGGING_FACE_CONFIG', /lora_dropout is 1/],
  [{ r: 4 }, 'MTL_HUGGING_FACE_WEIGHTS', /lora_A.weight has the shape \[3, \d+\]/],
])('refuses %j', async (fields, code, message) => {
  await expect(readLoraConfiguration(changedAdapters(fields))).rejects.toMatchObject({
    code,
    message: expect.stringMatching(message),
  });
});

it.each([
  [{ alpha_pattern: { q_proj: 4 } }, 'several alphas', 'merge_and_unload'],
  [{ modules_to_save: ['lm_head'] }, 'trained whole', '--load-hf'],
  [{ peft_type: 'LOHA' }, 'another kind than LoRA', '--load-hf'],
  [{ layer_replication: [[0, 2]] }, 'repeated', 'other adapters'],
])('tells what %j needs and what to do', async (fields, needs, remedy) => {
  await expect(readLoraConfiguration(changedAdapters(fields))).rejects.toMatchObject({
    code: 'MTL_HUGGING_FACE_CONFIG',
    message: expect.stringMatching(new RegExp(`${Object.keys(fields)[0]} is .*: the LoRA needs .*${needs}`)),
    remedy: expect.stringContaining(remedy),
  });
});

/** Renames the first tensor of a file. */
function renameFirstTensor(path: string, renamed: string): void {
  const file = readFileSync(path);
  const length = Number(file.readBigUInt64LE());
  const header = JSON.parse(file.subarray(8, 8 + length).toString('utf8')) as Record<string, object>;
  const [first, entry] = Object.entries(header).find(([name]) => name !== '__metadata__')!;
  delete header[first];
  const text = Buffer.from(JSON.stringify({ ...header, [renamed]: entry }));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(path, Buffer.concat([size, text, file.subarray(8 + length)]));
}

it.each([
  ['the embeddings', 'embed_tokens.lora_embedding_A', /not of a LoRA of a transformer's linear layers/],
  ['a router', 'layers.0.mlp.gate.lora_A.weight', /of a layer that chooses experts/],
  ['single experts', 'layers.0.mlp.experts.3.gate_proj.lora_A.weight', /of one expert, as transformers 4/],
])('refuses a LoRA of %s, which PEFT can merge', async (_, name, why) => {
  const changed = changedAdapters({});
  renameFirstTensor(join(changed, 'adapter_model.safetensors'), `base_model.model.model.${name}`);
  await expect(readLoraConfiguration(changed)).rejects.toMatchObject({
    code: 'MTL_HUGGING_FACE_WEIGHTS',
    message: expect.stringMatching(new RegExp(`${name} is ${why.source}`)),
    remedy: expect.stringContaining('--load-hf'),
  });
});

describe('adapters of experts', () => {
  it.each([
    ['lora-mixtral', ['gate_up_proj', 'down_proj']],
    ['lora-mixtral', ['model.layers.mlp.experts.down_proj', 'experts.gate_up_proj', 'q_proj.weight']],
    ['lora-olmoe', ['gate_up_proj']],
  ])('are found by the ends of the names of parameters: %s, %j', async (name, parameters) => {
    const found = await readLoraConfiguration(changedAdapters({ target_parameters: parameters }, name));
    expect(found).toEqual(await readLoraConfiguration(fixture(name)));
    expect(found.targets).toContain('mlp.experts.gate_up_proj');
  });

  it.each([
    [
      'lora-mixtral',
      { target_parameters: ['experts.down_proj'] },
      /target_parameters is \["experts.down_proj"\]/,
    ],
    ['lora-qwen3-moe', { target_parameters: null }, /target_parameters is null/],
    ['lora-qwen3-moe', { target_parameters: ['gate_up_proj', 'down_proj'] }, /target_parameters is /],
    ['lora-olmoe', { peft_version: '0.18.1' }, /peft_version is "0.18.1".*transposed/],
    ['lora-olmoe', { peft_version: undefined }, /peft_version is undefined/],
    ['lora-mixtral', { rank_pattern: { '.*\\.gate_up_proj': 6 } }, /rank_pattern/],
  ])('of %s are refused with %j', async (name, fields, message) => {
    await expect(readLoraConfiguration(changedAdapters(fields, name))).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_CONFIG',
      message: expect.stringMatching(message),
    });
  });

  it.each(['0.19.1', '0.21.0', '1.0.0', '0.20.0.dev0@0123abc'])('of version %s are read', async (version) => {
    const changed = changedAdapters({ peft_version: version }, 'lora-olmoe');
    expect(await readLoraConfiguration(changed)).toMatchObject({ targets: ['mlp.experts.gate_up_proj'] });
  });

  it('have r rows of each expert', async () => {
    await expect(readLoraConfiguration(changedAdapters({ r: 4 }, 'lora-olmoe'))).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_WEIGHTS',
      message: expect.stringMatching(/experts.lora_A.weight has the shape \[10, 18\]/),
      expected: expect.stringContaining('for each expert'),
    });
    const { configuration } = await readHuggingFaceGpt({ directory: fixture('huggingface-olmoe') });
    const model = { ...configuration, numExperts: 4 };
    const { load } = await readLoraDirectory({ directory: fixture('lora-olmoe'), model });
    await expect(load([])).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_WEIGHTS',
      message: expect.stringMatching(/experts.lora_A.weight has the shape \[10, 18\]/),
      expected: '[8, 18]',
    });
  });
});

it('refuses adapters of another model', async () => {
  const { configuration } = await readHuggingFaceGpt({ directory: fixture('huggingface-llama') });
  const model = { ...configuration, ffnHiddenSize: 2 * configuration.ffnHiddenSize };
  const { load } = await readLoraDirectory({ directory: fixture('lora-llama'), model });
  await expect(load([])).rejects.toMatchObject({
    code: 'MTL_HUGGING_FACE_WEIGHTS',
    message: expect.stringMatching(/_proj\.lora_[AB]\.weight has the shape/),
    remedy: expect.stringContaining('trained for this model'),
  });
});

it("takes PEFT's defaults for fields that are left out", async () => {
  const fields = { lora_alpha: undefined, lora_dropout: undefined, use_rslora: undefined };
  const found = await readLoraConfiguration(changedAdapters(fields));
  expect(found).toMatchObject({ alpha: 8, dropout: 0, useRslora: false });
});

it('refuses to train a model without adapters', async () => {
  const { configuration: model } = await readHuggingFaceGpt({ directory: fixture('huggingface-llama') });
  const lora = { rank: 2, scale: 1, dropout: 0, targets: [] };
  expect(() => new GptStage({ model, lora, device: 'cpu', dtype: 'float32', seed: 1 })).toThrow(
    expect.objectContaining({ code: 'MTL_LORA_TARGETS' }),
  );
});

it.each([
  ['q_proj', 'huggingface-llama', 8 * 400],
  ['experts.gate_up_proj', 'huggingface-mixtral', 6 * 8 * 400],
])('starts A uniform and B zero: %s', async (target, name, size) => {
  const source = await readHuggingFaceGpt({ directory: fixture(name) });
  const model = { ...source.configuration, hiddenSize: 400 };
  const lora = specifyLora({ rank: 8, alpha: 8, useRslora: false, dropout: 0, targets: [target] }, model);
  const { blocks } = new GptStage({ model, lora, device: 'cpu', dtype: 'float32', seed: 1 });
  const [{ down, up }] = blocks[0]!.adapters as [(typeof blocks)[0]['adapters'][0]];
  const storage = allocateParameters([down, up], { device: 'cpu', dtype: 'float32' });
  for (const parameter of [down, up]) initializeParameter(parameter, parameter.data, 3);
  const values = down.data.toArray();
  const bound = 1 / Math.sqrt(model.hiddenSize);
  expect(Math.max(...values.map(Math.abs))).toBeLessThanOrEqual(bound);
  expect(values).toHaveLength(size);
  // the mean square of a uniform distribution is bound^2 / 3, within five standard errors
  const meanSquare = values.reduce((sum, value) => sum + value * value, 0) / values.length;
  expect(Math.abs(meanSquare / (bound ** 2 / 3) - 1)).toBeLessThan((5 * Math.sqrt(0.8)) / Math.sqrt(size));
  expect(up.data.toArray().every((value) => value === 0)).toBe(true);
  storage.dispose();
});
