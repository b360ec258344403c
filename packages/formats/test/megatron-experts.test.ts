import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  DistributedTorchDirectory,
  encodeTorchObject,
  hostTensor,
  type LogicalTensor,
  type PickledObject,
  type PickleValue,
  TorchFile,
  writeDistributedTorchDirectory,
} from '@mtl/checkpoint';
import { countElements } from '@mtl/kernels';
import { type GptModelConfiguration, modelParameters } from '@mtl/models';
import { afterAll, describe, expect, it } from 'vitest';
import { readMegatron, writeMegatron } from '../src/index.js';

const fixtures = fileURLToPath(new URL('../fixtures/megatron/', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'megatron-experts-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

let numDirectories = 0;
const newDirectory = (): string => join(scratch, `${numDirectories++}`);

/** A model with every feature of experts that Megatron-LM has: as DeepSeek-V3, with the gate of Qwen2-MoE. */
const model: GptModelConfiguration = {
  numLayers: 3,
  hiddenSize: 8,
  ffnHiddenSize: 12,
  numAttentionHeads: 2,
  kvChannels: 4,
  groupQueryAttention: false,
  numQueryGroups: 2,
  maxPositionEmbeddings: 16,
  vocabularySize: 8,
  makeVocabularySizeDivisibleBy: 4,
  tieEmbeddings: false,
  positionEmbeddingType: 'none',
  normalization: 'RMSNorm',
  layerNormEpsilon: 1e-5,
  initMethodStd: 0.02,
  hiddenDropout: 0,
  attentionDropout: 0,
  geluKind: 'tanh',
  swiglu: true,
  squaredRelu: false,
  qkLayernorm: false,
  addBiasLinear: false,
  addQkvBias: false,
  numExperts: 6,
  moeLayerFreq: [0, 1, 1],
  moeFfnHiddenSize: 5,
  moeRouterTopk: 3,
  moeRouterScoreFunction: 'sigmoid',
  moeRouterPreSoftmax: true,
  moeRouterTopkScalingFactor: 2.5,
  moeRouterNumGroups: 3,
  moeRouterGroupTopk: 2,
  moeRouterEnableExpertBias: true,
  moeRouterBiasUpdateRate: 1e-4,
  moeRouterLoadBalancingType: ['seq_aux_loss', 'global_aux_loss'],
  moeAuxLossCoeff: [1e-4, 1e-3],
  moeZLossCoeff: 1e-3,
  moeSharedExpertIntermediateSize: 7,
  moeSharedExpertGate: true,
  moeExpertCapacityFactor: 1.25,
  moeTokenDropPolicy: 'position',
};
const kind = 'gpt';
const { moeSharedExpertIntermediateSize: _, moeSharedExpertGate: __, ...withoutShared } = model;
/** The same model with biases everywhere, which shared experts cannot have. */
const withBiases: GptModelConfiguration = {
  ...withoutShared,
  addBiasLinear: true,
  addQkvBias: true,
  moeSharedExpertGate: false,
};

/** Values that bfloat16 cannot represent. */
const valueAt = (tensor: number, index: number): number => Math.fround(1 + tensor / 64 + index / 4096);

const makeTensors = (of: GptModelConfiguration): LogicalTensor[] =>
  modelParameters({ kind, model: of }).map(({ name, globalShape }, tensor) => {
    const values = Float32Array.from({ length: countElements(globalShape) }, (_, index) =>
      valueAt(tensor, index),
    );
    return hostTensor({ name, globalShape, dtype: 'F32', memory: new Uint8Array(values.buffer) });
  });

const zerosLike = (tensors: readonly LogicalTensor[], prefix = '') =>
  tensors.map(({ name, globalShape }) =>
    hostTensor({
      name: `${prefix}${name}`,
      globalShape,
      dtype: 'F32',
      memory: new Uint8Array(4 * countElements(globalShape)),
    }),
  );

const floats = async (tensor: LogicalTensor): Promise<readonly number[]> => {
  const bytes = await tensor.read();
  return Array.from(new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4));
};

const written = async (of: GptModelConfiguration, dtype: 'F32' | 'BF16' = 'F32'): Promise<string> => {
  const options = { kind, model: of, iteration: 7, consumedSamples: 0, dtype } as const;
  return await writeMegatron({ ...options, directory: newDirectory(), tensors: makeTensors(of) });
};

describe('a mixture of experts that is written for Megatron-LM', () => {
  it.each([
    ['without biases', model],
    ['with biases', withBiases],
  ])('comes back, bit for bit: %s', async (_, of) => {
    const found = await readMegatron({ directory: await written(of) });
    expect(found.configuration).toEqual(of);
    const [expected, own] = [makeTensors(of), zerosLike(makeTensors(of))];
    await found.load(own);
    for (const [index, tensor] of own.entries()) {
      expect(await floats(tensor), tensor.name).toEqual(await floats(expected[index]!));
    }
    await found.close();
  });

  it('has the names and shapes of Megatron-Core, norms of layers with experts on their own', async () => {
    const { tensors } = await DistributedTorchDirectory.open(await written(model));
    const findShape = (name: string) => tensors.get(`decoder.layers.${name}`)?.shape;
    expect(findShape('1.mlp.experts.experts.linear_fc1.weight')).toEqual([6, 10, 8]);
    expect(findShape('1.mlp.experts.experts.linear_fc2.weight')).toEqual([6, 8, 5]);
    expect(findShape('1.mlp.shared_experts.linear_fc1.weight')).toEqual([14, 8]);
    expect(findShape('1.mlp.shared_experts.gate_weight')).toEqual([1, 8]);
    expect(findShape('1.mlp.router.weight')).toEqual([6, 8]);
    expect(findShape('1.pre_mlp_layernorm.weight')).toEqual([8]);
    expect(findShape('1.self_attention.linear_qkv.layer_norm_weight')).toEqual([8]);
    expect(findShape('0.mlp.linear_fc1.layer_norm_weight')).toEqual([8]);
    expect(findShape('0.pre_mlp_layernorm.weight')).toBeUndefined();
  });

  it('has all layers in one tensor where all have experts, however that is said', async () => {
    const { moeLayerFreq: _, ...every } = model;
    for (const of of [every, { ...every, moeLayerFreq: 1 }, { ...every, moeLayerFreq: [1, 1, 1] }]) {
      const { tensors } = await DistributedTorchDirectory.open(await written(of));
      expect(tensors.get('decoder.layers.mlp.experts.experts.linear_fc1.weight')?.shape).toEqual([
        3, 6, 10, 8,
      ]);
      expect(tensors.get('decoder.layers.pre_mlp_layernorm.weight')?.shape).toEqual([3, 8]);
    }
  });

  it('keeps the biases of experts in float32 when weights are bfloat16', async () => {
    const path = await written(model, 'BF16');
    const { tensors } = await DistributedTorchDirectory.open(path);
    expect(tensors.get('decoder.layers.1.mlp.router.expert_bias')?.dtype).toBe('F32');
    expect(tensors.get('decoder.layers.1.mlp.router.weight')?.dtype).toBe('BF16');
    const found = await readMegatron({ directory: path });
    const [expected, own] = [makeTensors(model), zerosLike(makeTensors(model))];
    await found.load(own);
    const of = (list: readonly LogicalTensor[]) => list.find(({ name }) => name.endsWith('expert_bias'))!;
    expect(await floats(of(own))).toEqual(await floats(of(expected)));
    await found.close();
  });

  it('is refused with a norm or an activation that Megatron-LM has not', async () => {
    for (const change of [{ qkLayernorm: true, qkNormWholeWidth: true }, { activationFuncClampValue: 7 }]) {
      await expect(written({ ...model, ...change })).rejects.toMatchObject({
        code: 'MTL_MEGATRON_CHECKPOINT',
        message: expect.stringContaining(Object.keys(change).at(-1)!) as string,
      });
    }
  });
});

it('reads the state of AdamW, which the biases of experts do not have', async () => {
  const path = await written(model, 'BF16');
  const source = await DistributedTorchDirectory.open(path);
  const directory = newDirectory();
  cpSync(path, directory, { recursive: true });
  rmSync(join(directory, '.metadata'));
  rmSync(join(directory, '__0_0.distcp'));
  const isBuffer = (name: string): boolean => name.endsWith('expert_bias');
  const stored = [...source.tensors.values()].flatMap(({ name, dtype, shape }) => {
    const chunk = (read: () => Promise<Uint8Array>) => [{ offsets: shape.map(() => 0), sizes: shape, read }];
    const own = { name, dtype: dtype!, shape, chunks: chunk(() => source.read({ name })) };
    const states = ['exp_avg', 'exp_avg_sq', 'fp32_param'].map((state, index) => ({
      name: `optimizer.state.${state}.${name}`,
      dtype: 'F32' as const,
      shape,
      chunks: chunk(
        async () => new Uint8Array(new Float32Array(countElements(shape)).fill(index + 1).buffer),
      ),
    }));
    return isBuffer(name) ? [own] : [own, ...states];
  });
  await writeDistributedTorchDirectory({ directory, tensors: stored });
  const found = await readMegatron({ directory });
  const [expected, own] = [makeTensors(model), zerosLike(makeTensors(model))];
  await found.load(own);
  for (const [index, tensor] of own.entries()) {
    const values = await floats(tensor);
    const wanted = await floats(expected[index]!);
    expect(values, tensor.name).toEqual(isBuffer(tensor.name) ? wanted : wanted.map(() => 3));
  }
  const trained = expected.filter(({ name }) => !isBuffer(name));
  const moments = zerosLike(trained, 'optimizer.exp_avg.');
  await found.optimizer!.load(moments);
  for (const tensor of moments) expect((await floats(tensor)).every((value) => value === 1)).toBe(true);
  await found.close();
});

/** A checkpoint with other args; undefined removes one. */
async function withArguments(changes: Readonly<Record<string, PickleValue | undefined>>): Promise<string> {
  const path = await written(model);
  const file = await TorchFile.open(join(path, 'common.pt'));
  const common = file.content as Map<PickleValue, PickleValue>;
  await file.close();
  const { state } = common.get('args') as PickledObject;
  for (const [name, value] of Object.entries(changes))
    (state as Map<string, PickleValue | undefined>).set(name, value);
  writeFileSync(join(path, 'common.pt'), Buffer.concat(encodeTorchObject(common)));
  return path;
}

describe('args of a mixture of experts', () => {
  it.each<[Readonly<Record<string, PickleValue>>, string]>([
    [{ moe_router_load_balancing_type: 'sinkhorn' }, 'moe_router_load_balancing_type is "sinkhorn"'],
    [{ moe_layer_freq: [1, 1] }, 'moe_layer_freq is [1,1]'],
    [{ moe_layer_freq: [0, 2, 1] }, 'moe_layer_freq is [0,2,1]'],
    [{ moe_router_score_function: 'tanh' }, 'moe_router_score_function is "tanh"'],
    [{ moe_latent_size: 4 }, 'moe_latent_size is 4'],
    [{ moe_mlp_glu_interleave_size: 32 }, 'moe_mlp_glu_interleave_size is 32'],
    [{ activation_func_clamp_value: 7 }, 'activation_func_clamp_value is 7'],
    [{ num_experts: -1 }, 'num_experts is -1'],
    [{ moe_aux_loss_coeff: 'some' }, 'moe_aux_loss_coeff is "some"'],
  ])('%j are refused by name', async (changes, message) => {
    await expect(readMegatron({ directory: await withArguments(changes) })).rejects.toMatchObject({
      code: 'MTL_MEGATRON_ARGUMENTS',
      message: expect.stringContaining(message) as string,
    });
  });

  it.each<[Readonly<Record<string, PickleValue>>, string]>([
    [{ num_experts: 5 }, 'router.weight has the shape [6, 8]'],
    [{ num_experts: 30_000_000 }, 'args declares 30000000 experts (num_experts)'],
    [{ moe_ffn_hidden_size: 4 }, 'linear_fc1.weight has the shape [6, 10, 8]'],
    [{ moe_layer_freq: [1, 1, 1] }, 'decoder.layers.0.mlp.router.weight not found'],
    [{ moe_shared_expert_gate: false }, 'gate_weight'],
    [{ moe_router_enable_expert_bias: false }, 'expert_bias'],
    [{ num_experts: null }, 'decoder.layers.1.mlp.linear_fc1.weight not found'],
  ])('%j that differ from the weights are refused', async (changes, message) => {
    await expect(readMegatron({ directory: await withArguments(changes) })).rejects.toMatchObject({
      code: 'MTL_MEGATRON_WEIGHTS',
      message: expect.stringContaining(message) as string,
    });
  });

  it('of other spellings are read', async () => {
    const changes = {
      moe_router_load_balancing_type: 'none',
      moe_aux_loss_coeff: 0.01,
      moe_expert_capacity_factor: -1,
      moe_z_loss_coeff: null,
    };
    const found = await readMegatron({ directory: await withArguments(changes) });
    expect(found.configuration).toMatchObject({
      moeRouterLoadBalancingType: ['none'],
      moeAuxLossCoeff: [0.01],
    });
    expect(found.configuration).not.toHaveProperty('moeExpertCapacityFactor');
    expect(found.configuration).not.toHaveProperty('moeZLossCoeff');
    await found.close();
  });
});

describe('ranks of expert parallelism', () => {
  const copyFixture = (name: string): string => {
    const directory = newDirectory();
    cpSync(join(fixtures, name), directory, { recursive: true });
    return directory;
  };

  it.each([
    ['torch-experts-local', 'mp_rank_01_001', '4 folders'],
    ['torch-experts-grouped', 'mp_rank_00_001_001', '4 folders'],
  ])('of %s are refused where one is missing', async (name, folder, expected) => {
    const directory = copyFixture(name);
    rmSync(join(directory, 'iter_0000012', folder), { recursive: true });
    await expect(readMegatron({ directory })).rejects.toMatchObject({
      code: 'MTL_MEGATRON_CHECKPOINT',
      message: expect.stringContaining('expert-parallel size 2') as string,
      expected: expect.stringContaining(expected) as string,
    });
  });

  it('are refused where they are of different layouts', async () => {
    const [directory, other] = [copyFixture('torch-experts-local'), copyFixture('torch-experts-view')];
    const rank = 'iter_0000012/mp_rank_01_001';
    rmSync(join(directory, rank), { recursive: true });
    cpSync(join(other, rank), join(directory, rank), { recursive: true });
    const opened = readMegatron({ directory });
    // experts stored in another form are read as the same experts
    await expect(opened).resolves.toMatchObject({ kind: 'gpt' });
    await (await opened).close();
    const grouped = copyFixture('torch-experts-grouped');
    rmSync(join(directory, rank), { recursive: true });
    cpSync(join(grouped, 'iter_0000012/mp_rank_00_000_001'), join(directory, rank), { recursive: true });
    await expect(readMegatron({ directory })).rejects.toMatchObject({
      code: 'MTL_MEGATRON_CHECKPOINT',
      message: expect.stringContaining('linear_fc1.weight') as string,
    });
  });
});
