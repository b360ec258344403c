import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  DistributedTorchDirectory,
  encodeTorchObject,
  hostTensor,
  type LogicalTensor,
  type PickleValue,
  SafetensorsFile,
  writeDistributedTorchDirectory,
} from '@mtl/checkpoint';
import { countElements } from '@mtl/kernels';
import { type GptModelConfiguration, hasExperts, modelParameters } from '@mtl/models';
import { digestOfDirectory } from '@mtl/tooling/digest-of-directory';
import { afterAll, describe, expect, it } from 'vitest';
import { type MegatronModel, readHuggingFaceGpt, readMegatron, writeMegatron } from '../src/index.js';
import { type FixtureName, fixtureDirectory } from './huggingface-fixture.js';

const fixtures = fileURLToPath(new URL('../fixtures/megatron/', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'megatron-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

let numCopies = 0;
/** A copy of a fixture, which a test may damage. */
function copyFixture(name: string): string {
  const directory = join(scratch, `${name}-${numCopies++}`);
  cpSync(join(fixtures, name), directory, { recursive: true });
  return directory;
}

type Values = Readonly<Record<string, string>>;

/** All weights of a model, as text that shows every bit. */
async function formatWeights(
  { kind, configuration }: Pick<MegatronModel, 'kind' | 'configuration'>,
  load: (tensors: readonly LogicalTensor[]) => Promise<void>,
): Promise<Values> {
  const tensors = modelParameters({ kind, model: configuration }).map(({ name, globalShape }) => {
    const memory = new Uint8Array(4 * countElements(globalShape));
    return { name, memory, tensor: hostTensor({ name, globalShape, dtype: 'F32', memory }) };
  });
  await load(tensors.map(({ tensor }) => tensor));
  return Object.fromEntries(
    tensors.map(({ name, memory }) => [name, Buffer.from(memory).toString('base64')]),
  );
}

const open = async (
  directory: string,
  options: { step?: number; vocabularySize?: number; weightsOnly?: boolean } = {},
) => await readMegatron({ directory, ...options });

/** Which layers have experts. */
const listLayers = (model: MegatronModel['configuration']): readonly boolean[] =>
  Array.from({ length: model.numLayers }, (_, layer) => hasExperts(model as GptModelConfiguration, layer));

describe.each([
  ['torch-gpt-0', 'huggingface-erf'],
  ['torch-gpt-1', 'huggingface-erf'],
  ['torch-gpt-2', 'huggingface-erf'],
  ['torch-gpt-3', 'huggingface-gpt2'],
  ['torch-llama', 'huggingface-llama'],
  ['torch-dist-gpt', 'huggingface-gpt2'],
  ['torch-dist-gpt-1p', 'huggingface-gpt2'],
  ['torch-dist-llama', 'huggingface-llama'],
  ['torch-dist-qwen3', 'huggingface-qwen3'],
  ['torch-experts-local', 'huggingface-mixtral'],
  ['torch-experts-grouped', 'huggingface-mixtral'],
  ['torch-experts-view', 'huggingface-mixtral'],
  ['torch-dist-experts', 'huggingface-mixtral'],
  ['torch-dist-experts-layers', 'huggingface-qwen3-moe'],
] as const satisfies readonly (readonly [string, FixtureName])[])('%s', (name, huggingFace) => {
  it(`has the weights of ${huggingFace}, bit for bit`, async () => {
    const found = await open(join(fixtures, name), { weightsOnly: true });
    const source = await readHuggingFaceGpt({
      directory: fixtureDirectory(huggingFace),
      makeVocabularySizeDivisibleBy: 4,
    });
    expect(found).toMatchObject({ kind: 'gpt', iteration: 12 });
    // the checkpoint stores the layers that have experts as a list
    const { moeLayerFreq: _, ...others } = source.configuration;
    expect(found.configuration).toMatchObject(others);
    expect(listLayers(found.configuration)).toEqual(listLayers(source.configuration));
    const weights = await formatWeights(found, found.load);
    const expected = { kind: 'gpt', configuration: source.configuration } as const;
    expect(weights).toEqual(await formatWeights(expected, source.load));
    await found.close();
  });
});

describe.each(['torch-bert', 'torch-dist-bert'])('%s', (name) => {
  it('has the weights of the BERT that PyTorch saved, bit for bit', async () => {
    const found = await open(join(fixtures, name));
    expect(found).toMatchObject({
      kind: 'bert',
      configuration: { layerNormPlacement: 'pre', sentenceOrderHead: true, geluKind: 'erf', numLayers: 2 },
    });
    const weights = await formatWeights(found, found.load);
    const file = await SafetensorsFile.open(join(fixtures, 'bert-weights.safetensors'));
    for (const key of file.tensors.keys()) {
      const expected = Buffer.from(await file.read({ name: key }));
      // our tensors also have the vocabulary's padding, which is zero
      const own = Buffer.from(weights[key]!, 'base64');
      expect(own.subarray(0, expected.length).equals(expected), key).toBe(true);
      expect(own.subarray(expected.length).every((byte) => byte === 0)).toBe(true);
    }
    expect(Object.keys(weights).sort()).toEqual([...file.tensors.keys()].sort());
    await file.close();
    await found.close();
  });
});

/**
 * Hashes of the files that torch.distributed.checkpoint of PyTorch 2.13.0 read on 2026-11-24, with experts on
 * 2026-11-27, every value as in the fixture of this name: `tooling/fixtures/megatron.py --check`.
 */
const checked = {
  'huggingface-gpt2': '586342b88c37b711c2c7127882c4144b7386a9a2fe6cb413ffbbdd57a6b42bb1',
  'huggingface-erf': '0737479ca17b6e2defe5f7dec4c061345b5a0acc92f04deb63d70e74e6efdda1',
  'huggingface-llama': '95815edc3b3f9121d244ebc91904802a8a7b157fdf435ef564679cbf912e4b9a',
  'huggingface-qwen3': '645537e041af18843c3665099e3e3092918af1b1a403b835c047c41b6e4c28c1',
  'huggingface-mixtral': '3a2c62c14b484e0a8fa4f7125037e7328fcff725cb0af57496fffe7b9ac5b187',
  'huggingface-qwen3-moe': 'c041b769637e84495828123c004a687398c19967e7472c38b1ba3d260277bc11',
  bert: '83e7f7864e524b8e95c5e08f34d6d09845b03bd85491a76fea3ad6a7d68fabc5',
};

describe('writeMegatron', () => {
  it.each(Object.entries(checked))('writes the bytes of %s that PyTorch has read', async (name, digest) => {
    const source =
      name === 'bert'
        ? await open(join(fixtures, 'torch-dist-bert'))
        : await readHuggingFaceGpt({ directory: fixtureDirectory(name as FixtureName) });
    const { kind, model } =
      'kind' in source
        ? { kind: source.kind, model: source.configuration }
        : { kind: 'gpt' as const, model: source.configuration };
    const tensors = modelParameters({ kind, model }).map(({ name, globalShape }) =>
      hostTensor({ name, globalShape, dtype: 'F32', memory: new Uint8Array(4 * countElements(globalShape)) }),
    );
    await source.load(tensors);
    const directory = join(process.env.MTL_TEST_WRITTEN ?? scratch, name);
    await writeMegatron({ directory, kind, model, tensors, iteration: 12, consumedSamples: 96 });
    if ('close' in source) await source.close();
    expect(
      digestOfDirectory(directory),
      `other bytes than PyTorch has read: run this test with MTL_TEST_WRITTEN=DIR, then python3 tooling/fixtures/megatron.py --check DIR/${name} ${name}; if it passes, put the digest here with the new date`,
    ).toBe(digest);
  });
});

it('has weights and biases of layer norms of queries and keys, in and out', async () => {
  const { configuration } = await readHuggingFaceGpt({ directory: fixtureDirectory('huggingface-gpt2') });
  const model = { ...configuration, qkLayernorm: true };
  const kind = 'gpt';
  const tensors = modelParameters({ kind, model }).map(({ name, globalShape }, tensor) => {
    const values = Float32Array.from(
      { length: countElements(globalShape) },
      (_, index) => 100 * tensor + index,
    );
    return hostTensor({ name, globalShape, dtype: 'F32', memory: new Uint8Array(values.buffer) });
  });
  const directory = join(scratch, 'qk-layernorm');
  const path = await writeMegatron({ directory, kind, model, tensors, iteration: 1, consumedSamples: 0 });
  const written = await DistributedTorchDirectory.open(path);
  for (const part of ['q', 'k'])
    for (const of of ['weight', 'bias'])
      expect(
        written.tensors.get(`decoder.layers.self_attention.${part}_layernorm.${of}`)?.shape,
        `${part}, ${of}`,
      ).toEqual([model.numLayers, model.hiddenSize / model.numAttentionHeads]);
  const found = await open(directory);
  expect(found.configuration).toMatchObject({ qkLayernorm: true, normalization: 'LayerNorm' });
  const back = await formatWeights({ kind, configuration: model }, found.load);
  // rows of the vocabulary's padding are zero
  for (const { name, read } of tensors.filter(({ name }) => name.startsWith('decoder.')))
    expect(back[name], name).toBe(Buffer.from(await read()).toString('base64'));
  await found.close();
});

describe('the state of AdamW', () => {
  const parseValues = (text: string): Float32Array => {
    const bytes = Uint8Array.from(Buffer.from(text, 'base64'));
    return new Float32Array(bytes.buffer);
  };

  it('is read with the weights that it updates', async () => {
    const directory = join(fixtures, 'torch-dist-llama');
    const [found, plain] = [await open(directory), await open(directory, { weightsOnly: true })];
    expect(found).toMatchObject({ iteration: 12, consumedSamples: 96, optimizer: { steps: 12 } });
    expect(plain.optimizer).toBeUndefined();
    const stored = await formatWeights(plain, plain.load);
    const updated = await formatWeights(found, found.load);
    const state = async (name: string): Promise<Values> =>
      await formatWeights(found, async (tensors) =>
        found.optimizer!.load(
          tensors.map((tensor) => ({ ...tensor, name: `optimizer.${name}.${tensor.name}` })),
        ),
      );
    const [moments, squares] = [await state('exp_avg'), await state('exp_avg_sq')];
    const rows = 37 * 20;
    for (const [name, text] of Object.entries(stored)) {
      // rows of the vocabulary's padding are zero
      const isTable = /word_embeddings|output_layer/.test(name);
      const values = parseValues(text);
      const expected = (rule: (value: number) => number) =>
        values.map((value, index) => (isTable && index >= rows ? 0 : rule(value)));
      expect(parseValues(updated[name]!), name).toEqual(expected((value) => value + 2 ** -12));
      expect(parseValues(moments[name]!), name).toEqual(expected((value) => 0.25 * value - 1));
      expect(parseValues(squares[name]!), name).toEqual(expected((value) => value * value));
    }
  });

  it('is of norms without the 1 that they are stored less, which their weights get back', async () => {
    const [found, plain] = [
      await open(join(fixtures, 'torch-dist-gpt-1p')),
      await open(join(fixtures, 'torch-dist-gpt'), { weightsOnly: true }),
    ];
    const [updated, expected] = [
      await formatWeights(found, found.load),
      await formatWeights(plain, plain.load),
    ];
    const moments = await formatWeights(found, async (tensors) =>
      found.optimizer!.load(
        tensors.map((tensor) => ({ ...tensor, name: `optimizer.exp_avg.${tensor.name}` })),
      ),
    );
    const name = 'decoder.final_layernorm.weight';
    parseValues(expected[name]!).forEach((weight, index) => {
      // both values were rounded, by at most 2^-24 and 2^-23: the weights are below 2
      expect(Math.abs(parseValues(updated[name]!)[index]! - (weight + 2 ** -12))).toBeLessThan(2 ** -22);
      expect(parseValues(moments[name]!)[index]).toBe(Math.fround(0.25 * (weight - 1) - 1));
    });
    await found.close();
    await plain.close();
  });

  it('is left out with a notice where it is not there for each weight', async () => {
    const found = await open(join(fixtures, 'torch-llama'));
    expect(found.optimizer).toBeUndefined();
    expect(found.notices).toContain(
      'only its weights are taken: the state of its optimizer is not there for each weight',
    );
    await found.close();
  });
});

describe('an incomplete or another checkpoint', () => {
  const refused = async (directory: string, options = {}): Promise<unknown> => {
    const error: unknown = await open(directory, options).catch((thrown: unknown) => thrown);
    const { code, message, expected } = error as { code: string; message: string; expected?: string };
    return { code, message: message.replaceAll(directory, 'DIR'), expected };
  };

  it('is refused where a rank is missing', async () => {
    const directory = copyFixture('torch-gpt-1');
    rmSync(join(directory, 'iter_0000012/mp_rank_01_000'), { recursive: true });
    expect(await refused(directory)).toMatchObject({
      code: 'MTL_MEGATRON_CHECKPOINT',
      message: expect.stringContaining('it has 3 folders mp_rank_TT_PPP') as string,
      expected: '4 folders: one for each rank',
    });
  });

  it('is refused where no folder has the name of a rank', async () => {
    const directory = copyFixture('torch-gpt-0');
    rmSync(join(directory, 'iter_0000012/mp_rank_01'), { recursive: true });
    renameSync(join(directory, 'iter_0000012/mp_rank_00'), join(directory, 'iter_0000012/mp_rank_0'));
    expect(await refused(directory)).toMatchObject({
      message: expect.stringContaining('it has 0 folders mp_rank_TT_PPP') as string,
      expected: '1 folders: one for each rank',
    });
  });

  it('is refused where ranks come from different layouts', async () => {
    const directory = copyFixture('torch-gpt-0');
    const other = copyFixture('torch-gpt-3');
    const [rank, of] = ['iter_0000012/mp_rank_01', 'iter_0000012/mp_rank_01_001'];
    rmSync(join(directory, rank), { recursive: true });
    renameSync(join(other, of), join(directory, rank));
    expect(await refused(directory)).toMatchObject({
      code: 'MTL_MEGATRON_CHECKPOINT',
      message: expect.stringContaining('word_embeddings.weight is missing, which other ranks') as string,
    });
  });

  it('is refused where gates and values are of different data types', async () => {
    const directory = join(scratch, 'different-halves');
    const source = await DistributedTorchDirectory.open(join(fixtures, 'torch-dist-qwen3/iter_0000012'));
    const other = 'decoder.layers.1.mlp.linear_fc1.weight_v';
    const tensors = [...source.tensors.values()].map(({ name, dtype, shape }) => ({
      name,
      dtype: name === other ? ('BF16' as const) : dtype!,
      shape,
      chunks: [
        {
          offsets: shape.map(() => 0),
          sizes: shape,
          read: async () =>
            (await source.read({ name })).subarray(0, name === other ? 2 * countElements(shape) : undefined),
        },
      ],
    }));
    mkdirSync(directory);
    await writeDistributedTorchDirectory({ directory, tensors });
    const [common] = (await source.readObject('common_state/shard_0_1')) as [PickleValue];
    writeFileSync(join(directory, 'common.pt'), Buffer.concat(encodeTorchObject(common)));
    writeFileSync(join(directory, 'metadata.json'), '{"sharded_backend":"torch_dist"}');
    expect(await refused(directory)).toMatchObject({
      code: 'MTL_MEGATRON_CHECKPOINT',
      message: expect.stringContaining('decoder.layers.1.mlp.linear_fc1.weight are not both there') as string,
      expected: expect.stringContaining('torch.float32 [') as string,
    });
  });

  it('is refused where the save did not finish', async () => {
    const directory = copyFixture('torch-dist-bert');
    rmSync(join(directory, 'iter_0000012/metadata.json'));
    expect(await refused(directory)).toMatchObject({
      message: expect.stringContaining('the save did not finish') as string,
    });
  });

  it('is refused where a data file was cut off', async () => {
    const directory = copyFixture('torch-dist-bert');
    writeFileSync(join(directory, 'iter_0000012/__0_0.distcp'), 'short');
    expect(await refused(directory)).toMatchObject({
      code: 'MTL_TORCH_FILE_INVALID',
      message: expect.stringMatching(/__0_0\.distcp: it refers to bytes .* of 5: it was cut off/) as string,
    });
  });

  it('is refused where a value is not finite, in both formats', async () => {
    const [distributed, legacy] = [copyFixture('torch-dist-qwen3'), copyFixture('torch-gpt-0')];
    const item = join(distributed, 'iter_0000012', '__0_0.distcp');
    const source = await DistributedTorchDirectory.open(join(distributed, 'iter_0000012'));
    const norm = await source.read({ name: 'decoder.final_layernorm.weight' });
    const bytes = readFileSync(item);
    bytes.writeFloatLE(Number.NaN, bytes.indexOf(norm));
    writeFileSync(item, bytes);
    // a file from before version 1.6 ends with the values of tensors, here in bfloat16
    const rank = join(legacy, 'iter_0000012/mp_rank_00/model_optim_rng.pt');
    writeFileSync(rank, Buffer.concat([readFileSync(rank).subarray(0, -2), Buffer.from([0x80, 0x7f])]));
    for (const directory of [distributed, legacy]) {
      const found = await open(directory, { weightsOnly: true });
      await expect(formatWeights(found, found.load)).rejects.toMatchObject({
        code: 'MTL_NOT_FINITE',
        exitCode: 2,
      });
      await found.close();
    }
  });

  it('is refused where the iteration is not there, with those that are', async () => {
    expect(await refused(join(fixtures, 'torch-bert'), { step: 7 })).toMatchObject({
      message: 'DIR/iter_0000007: there is no such directory',
      expected: 'one of iter_0000012',
    });
    expect(readdirSync(join(fixtures, 'torch-bert'))).toContain('iter_0000012');
  });

  it('is refused where there are more tokens than rows', async () => {
    expect(await refused(join(fixtures, 'torch-bert'), { vocabularySize: 33 })).toEqual({
      code: 'MTL_MEGATRON_WEIGHTS',
      message: 'DIR/iter_0000012: embedding.word_embeddings.weight has the shape [32, 12]',
      expected: '[33, 12]',
    });
  });
});
