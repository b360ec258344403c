import { cp, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SafetensorsDirectory, writeSafetensorsDirectory } from '@mtl/checkpoint';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readHuggingFaceGpt } from '../src/index.js';
import { type FixtureName, fixtureDirectory, loadModel } from './huggingface-fixture.js';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'huggingface-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

const indexName = 'model.safetensors.index.json';

interface Rewriting {
  /** The new name; undefined leaves the tensor out. Default: the same. */
  readonly rename?: (name: string) => string | undefined;
  readonly change?: (bytes: Uint8Array, name: string) => void;
  /** Maximum bytes of a file. Default: one file. */
  readonly maxShardBytes?: number;
}

/** Copies a model to `directory` with other tensors. */
async function rewritten(fixture: FixtureName, { rename, change, ...others }: Rewriting = {}): Promise<void> {
  const source = fixtureDirectory(fixture);
  await cp(source, directory, { recursive: true });
  const ofWeights = (await readdir(directory)).filter((name) => /safetensors(\.index\.json)?$/.test(name));
  for (const name of ofWeights) await rm(join(directory, name));
  const weights = await SafetensorsDirectory.open(source);
  const tensors = await Promise.all(
    [...weights.tensors.values()].map(async ({ name, dtype, shape }) => {
      const bytes = await weights.read({ name });
      change?.(bytes, name);
      return { name: rename === undefined ? name : rename(name), dtype, shape, read: () => bytes };
    }),
  );
  await weights.close();
  const kept = tensors.flatMap(({ name, ...tensor }) => (name === undefined ? [] : [{ name, ...tensor }]));
  await writeSafetensorsDirectory({ directory, tensors: kept, ...others });
}

/** The weights of the model in `directory`. */
async function parameters(): Promise<readonly (readonly number[])[]> {
  const { stage, dispose } = await loadModel(directory);
  const values = stage.parameters.map(({ data }) => data.toArray());
  dispose();
  return values;
}

describe('model.safetensors next to an index of shards', () => {
  it('is what is read, as transformers reads it, with a notice', async () => {
    await rewritten('huggingface-llama');
    const expected = await parameters();
    await rename(join(directory, 'model.safetensors'), join(directory, 'single'));
    await rewritten('huggingface-llama', { maxShardBytes: 4096, change: (bytes) => bytes.fill(0) });
    expect(await readdir(directory)).toContain(indexName);
    await rename(join(directory, 'single'), join(directory, 'model.safetensors'));
    expect(await parameters()).toEqual(expected);
    const { notices } = await readHuggingFaceGpt({ directory });
    expect(notices.join()).toContain(`model.safetensors is read, and the shards of ${indexName} are not`);
  });
});

describe('a tied model', () => {
  it.each<[FixtureName, string]>([
    ['huggingface-smollm', 'model.embed_tokens.weight'],
    ['huggingface-gpt2', 'transformer.wte.weight'],
  ])('is read where it stores its head alone: %s', async (fixture, embedding) => {
    await rewritten(fixture);
    const expected = await parameters();
    await rewritten(fixture, { rename: (name) => (name === embedding ? 'lm_head.weight' : name) });
    expect(await parameters()).toEqual(expected);
  });
});

describe('shards', () => {
  it.each<[string, (shard: string) => Promise<void>, string]>([
    ['that are missing', (shard) => rm(shard), 'is missing'],
    ['of another model', (shard) => cp(join(directory, 'stale'), shard), 'and it is not'],
    ['that are cut off', (shard) => writeFile(shard, 'x'), 'is not a valid safetensors file'],
  ])('%s are wrong input', async (_, damage, message) => {
    await rewritten('huggingface-llama', { rename: (name) => `other.${name}` });
    await rename(join(directory, 'model.safetensors'), join(directory, 'stale'));
    await rewritten('huggingface-llama', { maxShardBytes: 4096 });
    const shard = (await readdir(directory)).find((name) => /^model-.*safetensors$/.test(name))!;
    await damage(join(directory, shard));
    await expect(readHuggingFaceGpt({ directory })).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining(message),
    });
  });

  it('of PyTorch name how to convert the files', async () => {
    await rewritten('huggingface-llama');
    await rename(join(directory, 'model.safetensors'), join(directory, 'pytorch_model.bin'));
    await expect(readHuggingFaceGpt({ directory })).rejects.toMatchObject({
      code: 'MTL_SAFETENSORS_NONE',
      exitCode: 2,
      remedy: expect.stringContaining(`from_pretrained('${directory}').save_pretrained(`),
    });
  });
});

describe('errors about tensors', () => {
  it.each<[FixtureName, string]>([
    ['huggingface-llama', 'model.layers.0.mlp.up_proj.weight'],
    ['huggingface-gpt2', 'transformer.h.0.ln_1.bias'],
  ])('name them as the files of %s do', async (fixture, missing) => {
    await rewritten(fixture, { rename: (name) => (name === missing ? undefined : name) });
    await expect(readHuggingFaceGpt({ directory })).rejects.toMatchObject({
      message: expect.stringContaining(`tensor ${missing} not found`),
    });
  });

  it('name them without a prefix where the files have none', async () => {
    const stripped = (name: string) => name.replace(/^transformer\./, '');
    await rewritten('huggingface-gpt2', {
      rename: (name) => (name.endsWith('h.0.ln_1.bias') ? undefined : stripped(name)),
    });
    await expect(readHuggingFaceGpt({ directory })).rejects.toMatchObject({
      message: expect.stringContaining('tensor h.0.ln_1.bias not found'),
    });
  });
});

describe('Infinity and NaN in config.json', () => {
  const stating = async (fields: string): Promise<void> => {
    await rewritten('huggingface-llama');
    const path = join(directory, 'config.json');
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replace('{', `{${fields}, "note": "NaN \\" -Infinity",`));
  };

  it('are read where nothing computes with them, and kept as transformers writes them', async () => {
    await stating('"time_step_limit": [0.0, Infinity], "low": -Infinity, "none": NaN');
    const { origin } = await readHuggingFaceGpt({ directory });
    expect(origin.config).toMatchObject({
      time_step_limit: [0, { __float__: 'Infinity' }],
      low: { __float__: '-Infinity' },
      none: { __float__: 'NaN' },
      note: 'NaN " -Infinity',
    });
  });

  it('are refused as a number of the model', async () => {
    await stating('"initializer_range_": 0');
    const path = join(directory, 'config.json');
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replace(/"rms_norm_eps": [^,]*/, '"rms_norm_eps": Infinity'));
    await expect(readHuggingFaceGpt({ directory })).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_CONFIG',
      message: expect.stringContaining('rms_norm_eps is {"__float__":"Infinity"}'),
    });
  });
});
