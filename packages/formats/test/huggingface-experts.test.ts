import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allocateParameters } from '@mtl/autograd';
import {
  hostTensor,
  type LogicalTensor,
  SafetensorsDirectory,
  writeSafetensorsDirectory,
} from '@mtl/checkpoint';
import { type GptModelConfiguration, GptStage, hasExperts } from '@mtl/models';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parameterTensors, readHuggingFaceGpt, writeHuggingFaceGpt } from '../src/index.js';
import { type FixtureName, fixtureDirectory, loadModel } from './huggingface-fixture.js';

let scratch: string;
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'huggingface-'));
});
afterEach(async () => {
  await rm(scratch, { recursive: true });
});

type Fields = Readonly<Record<string, unknown>>;
type ExpertFixture = FixtureName | 'huggingface-mixtral-fused';

const locateFixture = (name: ExpertFixture): string => fixtureDirectory(name as FixtureName);

const readConfig = async (directory: string): Promise<Fields> =>
  JSON.parse(await readFile(join(directory, 'config.json'), 'utf8')) as Fields;

/** The parameters of a directory's model by name. */
async function readParameters(directory: string): Promise<Readonly<Record<string, readonly number[]>>> {
  const { stage, dispose } = await loadModel(directory);
  const values = stage.parameters.map(({ name, data }) => [name, data.toArray()] as const);
  dispose();
  return Object.fromEntries(values);
}

/** A copy of a fixture with a changed config.json or changed tensors; undefined removes a field or tensor. */
async function changed(
  name: ExpertFixture,
  { config = {}, rename }: { readonly config?: Fields; rename?(name: string): string | undefined },
): Promise<string> {
  await cp(locateFixture(name), scratch, { recursive: true });
  await writeFile(
    join(scratch, 'config.json'),
    JSON.stringify({ ...(await readConfig(scratch)), ...config }),
  );
  if (rename === undefined) return scratch;
  const weights = await SafetensorsDirectory.open(locateFixture(name));
  const tensors = await Promise.all(
    [...weights.tensors.values()].map(async ({ name: own, dtype, shape }) => {
      const bytes = await weights.read({ name: own });
      return { name: rename(own), dtype, shape, read: () => bytes };
    }),
  );
  await weights.close();
  for (const file of await readdir(scratch)) if (/safetensors/.test(file)) await rm(join(scratch, file));
  await writeSafetensorsDirectory({
    directory: scratch,
    tensors: tensors.flatMap(({ name: own, ...tensor }) =>
      own === undefined ? [] : [{ name: own, ...tensor }],
    ),
  });
  return scratch;
}

const readChanged = async (name: ExpertFixture, config: Fields) =>
  await readHuggingFaceGpt({ directory: await changed(name, { config }) });

it('reads experts that transformers 5 has fused into one tensor', async () => {
  const names = [...(await namesIn(locateFixture('huggingface-mixtral-fused')))];
  expect(names).toContain('model.layers.0.mlp.experts.gate_up_proj');
  const [fused, apart] = [locateFixture('huggingface-mixtral-fused'), locateFixture('huggingface-mixtral')];
  expect(await readParameters(fused)).toEqual(await readParameters(apart));
});

async function namesIn(directory: string): Promise<readonly string[]> {
  const weights = await SafetensorsDirectory.open(directory);
  await weights.close();
  return [...weights.tensors.keys()];
}

it('reads the configuration of a mixture of experts', async () => {
  const { configuration, notices } = await readHuggingFaceGpt({
    directory: locateFixture('huggingface-qwen2-moe'),
  });
  expect(configuration).toMatchObject({
    ffnHiddenSize: 20,
    numExperts: 6,
    moeLayerFreq: [0, 1, 0],
    moeFfnHiddenSize: 10,
    moeRouterTopk: 3,
    moeRouterPreSoftmax: true,
    moeSharedExpertIntermediateSize: 13,
    moeSharedExpertGate: true,
    addQkvBias: true,
    addBiasLinear: false,
  });
  expect(configuration.windowSize).toBeUndefined();
  // the coefficient of the balancing loss is a setting of each run
  expect(notices).toEqual([]);
});

it.each<[ExpertFixture, Fields, Partial<GptModelConfiguration>]>([
  ['huggingface-qwen3-moe', { num_local_experts: undefined, num_experts: 7 }, { numExperts: 7 }],
  ['huggingface-mixtral', { num_local_experts: undefined, num_experts: 6 }, { numExperts: 6 }],
  ['huggingface-mixtral', { rope_parameters: undefined }, { rotaryBase: 1e6 }],
  ['huggingface-mixtral', { sliding_window: 4 }, { windowSize: '3,0' }],
  ['huggingface-qwen3-moe', { use_sliding_window: true, sliding_window: 4 }, { windowSize: '3,0' }],
  // layers 0, 2, 4 ... before max_window_layers
  [
    'huggingface-qwen2-moe',
    { use_sliding_window: true, sliding_window: 4, layer_types: null },
    { windowSize: '3,0', windowAttnSkipFreq: [1, 0, 1] },
  ],
  [
    'huggingface-qwen2-moe',
    { use_sliding_window: true, sliding_window: 4, layer_types: null, max_window_layers: 2 },
    { windowSize: '3,0', windowAttnSkipFreq: [1, 0, 0] },
  ],
  ['huggingface-qwen3-moe', { norm_topk_prob: undefined }, { moeRouterPreSoftmax: true }],
  // the default of transformers
  ['huggingface-mixtral', { num_experts_per_tok: undefined }, { moeRouterTopk: 2 }],
  // every second layer from the first on, unlike decoder_sparse_step, which starts with the second
  ['huggingface-qwen3-moe', { mlp_only_layers: [1, 40] }, { moeLayerFreq: 2 }],
  ['huggingface-qwen2-moe', { decoder_sparse_step: 1, mlp_only_layers: [0, 2] }, { moeLayerFreq: [0, 1, 0] }],
])('reads %s with %j', async (name, change, expected) => {
  expect((await readChanged(name, change)).configuration).toMatchObject(expected);
});

it.each<[ExpertFixture, Fields, string, string]>([
  ['huggingface-mixtral', { num_experts_per_tok: 7 }, 'num_experts_per_tok is 7', 'at most 6'],
  [
    'huggingface-qwen3-moe',
    { num_experts_per_tok: undefined },
    'num_experts_per_tok is missing',
    'at most 7',
  ],
  ['huggingface-mixtral', { num_local_experts: undefined }, 'num_local_experts is missing', 'integer'],
  ['huggingface-mixtral', { router_jitter_noise: 0.1 }, 'noise in the input of the router', '0'],
  ['huggingface-mixtral', { n_routed_experts: 8 }, 'a mixture of experts', 'false'],
  ['huggingface-qwen2-moe', { mlp_only_layers: [1.5] }, 'mlp_only_layers is [1.5]', 'a list of layers'],
  ['huggingface-qwen2-moe', { mlp_only_layers: 1 }, 'mlp_only_layers is 1', 'a list of layers'],
  ['huggingface-qwen2-moe', { decoder_sparse_step: 0 }, 'decoder_sparse_step is 0', 'a positive integer'],
  ['huggingface-qwen2-moe', { mlp_only_layers: [1] }, 'decoder_sparse_step is 2', 'one of the layers'],
  ['huggingface-qwen2-moe', { num_hidden_layers: 2 ** 40 }, 'num_hidden_layers is', 'at most 10000'],
  ['huggingface-qwen3-moe', { attention_bias: true }, 'attention_bias is true', 'false'],
])('refuses %s with %j, by name', async (name, change, message, expected) => {
  await expect(readChanged(name, change)).rejects.toMatchObject({
    code: 'MTL_HUGGING_FACE_CONFIG',
    message: expect.stringContaining(message) as string,
    expected: expect.stringContaining(expected) as string,
  });
});

describe('tensors that do not fit', () => {
  const renameExpert = (name: string): string => name.replace('.experts.5.', '.experts.6.');

  it.each<[ExpertFixture, (name: string) => string | undefined, string]>([
    [
      'huggingface-mixtral',
      (name) => (name.endsWith('0.block_sparse_moe.experts.3.w3.weight') ? undefined : name),
      'tensor model.layers.0.block_sparse_moe.experts.3.w3.weight not found',
    ],
    [
      'huggingface-mixtral',
      (name) => (/layers\.1.*experts\.5\.w2/.test(name) ? renameExpert(name) : name),
      'tensor model.layers.1.block_sparse_moe.experts.5.w2.weight not found',
    ],
    [
      'huggingface-qwen2-moe',
      (name) => (name.endsWith('shared_expert_gate.weight') ? undefined : name),
      'tensor model.layers.1.mlp.shared_expert_gate.weight not found',
    ],
    [
      'huggingface-mixtral-fused',
      (name) => (name.endsWith('layers.1.mlp.experts.down_proj') ? undefined : name),
      'experts.down_proj not found',
    ],
  ])('are refused by name: %s', async (name, rename, message) => {
    await expect(readHuggingFaceGpt({ directory: await changed(name, { rename }) })).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_WEIGHTS',
      message: expect.stringContaining(message) as string,
    });
  });

  it.each<[ExpertFixture, Fields, string]>([
    ['huggingface-mixtral', { num_local_experts: 4 }, 'gate.weight has the shape [6, 14]'],
    ['huggingface-mixtral', { num_local_experts: 1e6 }, 'declares 1000000 experts (num_local_experts)'],
    ['huggingface-mixtral-fused', { num_local_experts: 2 ** 53 - 1 }, 'declares 9007199254740991 experts'],
    ['huggingface-qwen3-moe', { mlp_only_layers: [] }, 'layers.1.mlp.gate.weight not found'],
    [
      'huggingface-qwen3-moe',
      { moe_intermediate_size: 18 },
      'experts.0.gate_proj.weight has the shape [9, 14]',
    ],
    ['huggingface-mixtral-fused', { intermediate_size: 12 }, 'gate_up_proj has the shape [6, 20, 14]'],
    ['huggingface-qwen2-moe', { model_type: 'qwen3_moe' }, 'q_norm.weight not found'],
  ])('of %s are refused with %j', async (name, config, message) => {
    await expect(readChanged(name, config)).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_WEIGHTS',
      message: expect.stringContaining(message) as string,
    });
  });
});

/** Memory for a part of a parameter. */
const allocatePart = (tensor: LogicalTensor, slices: LogicalTensor['slices']) => {
  const size = slices.reduce((product, { start, end }) => product * (end - start), 1);
  return hostTensor({ ...tensor, slices, memory: new Uint8Array(4 * size) });
};

it.each(['huggingface-mixtral', 'huggingface-mixtral-fused'] as const)(
  'fills the experts and features of a rank from %s',
  async (name) => {
    const { source, stage, dispose } = await loadModel(locateFixture(name));
    const whole = parameterTensors(stage.parameters).filter(({ name: own }) => /experts\.linear/.test(own));
    const parts = whole.map(({ name: own, dtype, globalShape, read }) => {
      // experts 1 and 2 of 6, and features 3 to 6 of 10
      const features = globalShape.indexOf(10);
      const slices = globalShape.map((size, dim) =>
        dim === 0 ? { start: 1, end: 3 } : dim === features ? { start: 3, end: 7 } : { start: 0, end: size },
      );
      const none = slices.map(({ end }, dim) => (dim === 0 ? { start: 2, end: 2 } : { start: 0, end }));
      const tensor = { name: own, dtype, globalShape, slices, read, write: () => {} };
      return { part: allocatePart(tensor, slices), empty: allocatePart(tensor, none), whole: tensor };
    });
    await source.load(parts.flatMap(({ part, empty }) => [part, empty]));
    for (const { part, whole: tensor } of parts) {
      const bytes = await tensor.read();
      const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
      const expected = listIndices(tensor.globalShape)
        .map((at, index) => ({ at, value: values[index]! }))
        .filter(({ at }) => at.every((i, dim) => i >= part.slices[dim]!.start && i < part.slices[dim]!.end))
        .map(({ value }) => value);
      const own = await part.read();
      expect(Array.from(new Float32Array(own.buffer, own.byteOffset, own.length / 4))).toEqual(expected);
    }
    dispose();
  },
);

/** The indices of all elements, row-major. */
const listIndices = (shape: readonly number[]): readonly (readonly number[])[] =>
  shape.reduce<number[][]>(
    (all, size) => all.flatMap((at) => Array.from({ length: size }, (_, index) => [...at, index])),
    [[]],
  );

it('reads each tensor once when it writes its experts apart', async () => {
  const { source, stage, dispose } = await loadModel(locateFixture('huggingface-qwen3-moe'));
  const reads = new Map<string, number>();
  const tensors = parameterTensors(stage.parameters).map((tensor) => ({
    ...tensor,
    readInto: (target: Uint8Array) => {
      reads.set(tensor.name, (reads.get(tensor.name) ?? 0) + 1);
      return tensor.readInto!(target);
    },
  }));
  await writeHuggingFaceGpt({ directory: join(scratch, 'out'), model: source.configuration, tensors });
  expect([...reads.values()].every((count) => count === 1)).toBe(true);
  expect(reads.size).toBe(stage.parameters.length);
  dispose();
});

describe('layers with experts', () => {
  it.each<[GptModelConfiguration['moeLayerFreq'], Fields]>([
    [undefined, { decoder_sparse_step: 1, mlp_only_layers: [] }],
    [[0, 1, 0, 1, 0, 1], { decoder_sparse_step: 2, mlp_only_layers: [] }],
    [[0, 0, 1, 0, 0, 1], { decoder_sparse_step: 3, mlp_only_layers: [] }],
    [2, { decoder_sparse_step: 1, mlp_only_layers: [1, 3, 5] }],
    [[0, 1, 1, 1, 1, 1], { decoder_sparse_step: 1, mlp_only_layers: [0] }],
    [[0, 0, 0, 0, 1, 0], { decoder_sparse_step: 5, mlp_only_layers: [] }],
  ])('%j are written as a Qwen counts them, and come back', async (moeLayerFreq, expected) => {
    const { configuration, modelType } = await readHuggingFaceGpt({
      directory: locateFixture('huggingface-qwen3-moe'),
    });
    const { moeLayerFreq: _, ...others } = configuration;
    const numLayers = 6;
    const model = { ...others, numLayers, ...(moeLayerFreq !== undefined && { moeLayerFreq }) };
    const stage = new GptStage({ model, device: 'cpu', dtype: 'float32', seed: 3 });
    const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype: 'float32' });
    const directory = join(scratch, 'out');
    await writeHuggingFaceGpt({ directory, model, tensors: parameterTensors(stage.parameters) });
    expect(await readConfig(directory)).toMatchObject({ ...expected, model_type: modelType });
    const again = (await readHuggingFaceGpt({ directory })).configuration;
    const layers = Array.from({ length: numLayers }, (_, layer) => layer);
    expect(layers.map((layer) => hasExperts(again, layer))).toEqual(
      layers.map((layer) => hasExperts(model, layer)),
    );
    stage.dispose();
    storage.dispose();
  });
});

it('writes numbers as the kind of number that transformers reads', async () => {
  const { source, stage, dispose } = await loadModel(locateFixture('huggingface-mixtral'));
  const config = { ...source.origin.config, router_aux_loss_coef: 0, router_jitter_noise: 0 };
  const [directory, tensors] = [join(scratch, 'out'), parameterTensors(stage.parameters)];
  const model = { ...source.configuration, initMethodStd: 1 };
  await writeHuggingFaceGpt({ directory, model, tensors, origin: { config } });
  const text = await readFile(join(directory, 'config.json'), 'utf8');
  expect(text).toMatch(/"router_aux_loss_coef": 0\.0,\n/);
  expect(text).toMatch(/"router_jitter_noise": 0\.0,\n/);
  expect(text).toMatch(/"initializer_range": 1\.0,\n/);
  expect(text).toMatch(/"hidden_size": 14,\n/);
  dispose();
});

it('writes a Mixtral whose dense width is another: it has no dense layers', async () => {
  const { source, stage, dispose } = await loadModel(locateFixture('huggingface-mixtral'));
  const { ffnHiddenSize: moeFfnHiddenSize } = source.configuration;
  const directory = join(scratch, 'out');
  await writeHuggingFaceGpt({
    directory,
    model: { ...source.configuration, ffnHiddenSize: 128, moeFfnHiddenSize },
    tensors: parameterTensors(stage.parameters),
    origin: { config: { ...source.origin.config, num_experts: 3, router_aux_loss_coef: 0.02 } },
  });
  const config = await readConfig(directory);
  expect(config).toMatchObject({ intermediate_size: 10, num_local_experts: 6, router_aux_loss_coef: 0.02 });
  expect(config).not.toHaveProperty('num_experts');
  dispose();
});

it.each<[Partial<GptModelConfiguration>, string]>([
  [{ moeRouterPreSoftmax: true }, 'moeRouterPreSoftmax'],
  [{ moeRouterScoreFunction: 'sigmoid' }, 'moeRouterScoreFunction'],
  [{ moeRouterTopkScalingFactor: 2.5 }, 'moeRouterTopkScalingFactor'],
  [{ moeLayerFreq: [1, 0] }, 'moeLayerFreq'],
  [{ moeSharedExpertIntermediateSize: 8 }, 'moeSharedExpertIntermediateSize'],
  [{ addBiasLinear: true }, 'addBiasLinear true'],
  [{ addBiasLinear: true, qkLayernorm: true, moeFfnHiddenSize: 12 }, 'a Qwen3-MoE lacks addBiasLinear true'],
])('writes no Mixtral with %j', async (change, lacks) => {
  const { configuration } = await readHuggingFaceGpt({ directory: locateFixture('huggingface-mixtral') });
  const model = { ...configuration, ...change };
  const directory = join(scratch, 'out');
  await expect(writeHuggingFaceGpt({ directory, model, tensors: [] })).rejects.toMatchObject({
    code: 'MTL_HUGGING_FACE_CONFIG',
    message: expect.stringContaining(lacks) as string,
  });
});
