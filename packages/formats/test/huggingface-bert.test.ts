import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SafetensorsDirectory } from '@mtl/checkpoint';
import { numLiveTensors } from '@mtl/kernels';
import type { BertStage } from '@mtl/models';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parameterTensors, readHuggingFaceBert, writeHuggingFaceBert } from '../src/index.js';
import {
  batchOfFixture,
  bertNames,
  type FixtureBatch,
  fixturePath,
  loadBert,
  readFixture,
} from './bert-fixture.js';

interface Expected {
  readonly batch: FixtureBatch;
  readonly maskedLogits: readonly number[];
  readonly sentenceOrderLogits?: readonly number[];
}

let directory: string;
let live: number;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-bert-'));
  live = numLiveTensors();
});
afterEach(() => {
  rmSync(directory, { recursive: true });
  expect(numLiveTensors()).toBe(live);
});

/** The tensors of a directory; 32-bit tensors as floats. */
async function readFloats(path: string): Promise<Map<string, Float32Array>> {
  const weights = await SafetensorsDirectory.open(path);
  const all = new Map<string, Float32Array>();
  for (const [name, { bytes }] of weights.tensors) {
    const target = await weights.read({ name, target: new Uint8Array(bytes) });
    all.set(name, new Float32Array(Uint8Array.from(target).buffer.slice(0, bytes - (bytes % 4))));
  }
  await weights.close();
  return all;
}

function expectNear(actual: ArrayLike<number>, expected: readonly number[], tolerance: number): void {
  expect(actual.length).toBeGreaterThanOrEqual(expected.length);
  expected.forEach((value, index) => {
    expect(Math.abs(actual[index]! - value), `logit ${index}`).toBeLessThan(tolerance);
  });
}

describe.each(bertNames)('%s', (name) => {
  const expected = readFixture<Expected>(`${name}/expected.json`);

  it("gives transformers' logits", async () => {
    const { stage, dispose } = await loadBert(fixturePath(name));
    const { maskedLogits, sentenceOrderLogits } = stage.predict(batchOfFixture(expected.batch));
    // the bound of the design; both compute from the same weights, transformers in float64
    expectNear(maskedLogits, expected.maskedLogits, 1e-4);
    if (expected.sentenceOrderLogits === undefined) expect(sentenceOrderLogits).toBeUndefined();
    else expectNear(sentenceOrderLogits!, expected.sentenceOrderLogits, 1e-4);
    dispose();
  });

  it('does not look at padding', async () => {
    const { stage, dispose } = await loadBert(fixturePath(name));
    const batch = batchOfFixture(expected.batch);
    const { batchSize, lengths } = batch;
    const tokens = batch.tokens.map((token, index) =>
      Math.floor(index / batchSize) < lengths[index % batchSize]! ? token : (index * 7) % 50,
    );
    expect(tokens).not.toEqual(batch.tokens);
    expect(stage.predict({ ...batch, tokens })).toEqual(stage.predict(batch));
    // without padding information, the result changes
    const full = { ...batch, tokens, lengths: lengths.map(() => batch.sequenceLength) };
    expect(stage.predict(full)).not.toEqual(stage.predict(batch));
    dispose();
  });

  it('is saved bit for bit as it was loaded', async () => {
    const { source, stage, dispose } = await loadBert(fixturePath(name));
    const target = join(directory, 'saved');
    const dtype = name === 'huggingface-bert-masked' ? 'BF16' : 'F32';
    const tensors = parameterTensors(stage.parameters);
    await writeHuggingFaceBert({ directory: target, model: source.configuration, tensors, dtype });
    const again = await loadBert(target);
    expect(again.source.configuration).toEqual(source.configuration);
    const values = ({ parameters }: BertStage): number[][] => parameters.map(({ data }) => data.toArray());
    expect(values(again.stage)).toEqual(values(stage));
    const [ours, theirs] = [target, fixturePath(name)].map(
      (path) => JSON.parse(readFileSync(join(path, 'config.json'), 'utf8')) as Record<string, unknown>,
    );
    for (const key of Object.keys(ours!).filter((key) => key !== 'torch_dtype'))
      expect(ours![key], key).toEqual(theirs![key]);
    const [written, original] = [await readFloats(target), await readFloats(fixturePath(name))];
    const newNames = (all: typeof original) =>
      [...all.keys()].map((key) => key.replace('gamma', 'weight').replace('beta', 'bias')).toSorted();
    expect(newNames(written)).toEqual(newNames(original));
    const angles = 'roformer.encoder.embed_positions.weight';
    expect(written.has(angles)).toBe(name === 'huggingface-roformer');
    // sines of numpy and of the engine may be rounded differently
    if (written.has(angles)) expectNear(written.get(angles)!, [...original.get(angles)!], 2 ** -23);
    dispose();
    again.dispose();
  });
});

describe('Hugging Face directories of BERT', () => {
  it('load without the sentence head that they have', async () => {
    const { stage, dispose } = await loadBert(fixturePath('huggingface-bert'), { sentenceOrderHead: false });
    const { batch, maskedLogits } = readFixture<Expected>('huggingface-bert/expected.json');
    const prediction = stage.predict(batchOfFixture(batch));
    expect(prediction.sentenceOrderLogits).toBeUndefined();
    expectNear(prediction.maskedLogits, maskedLogits, 1e-4);
    dispose();
  });

  it('refuse to lack a head that is asked for', async () => {
    const loading = loadBert(fixturePath('huggingface-bert-masked'), { sentenceOrderHead: true });
    await expect(loading).rejects.toMatchObject({ code: 'MTL_HUGGING_FACE_WEIGHTS' });
    // the model that could not be loaded must have released its storage
    live = numLiveTensors();
  });

  it.each([
    ['huggingface-bert', 'model_type', 'gpt2', '"bert"'],
    ['huggingface-bert', 'is_decoder', true, 'false'],
    ['huggingface-bert', 'position_embedding_type', 'relative_key', '"absolute"'],
    ['huggingface-bert', 'hidden_act', 'relu', 'gelu'],
    ['huggingface-bert', 'num_attention_heads', 5, 'a divisor of 32'],
    ['huggingface-bert', 'hidden_dropout_prob', 1.5, 'a probability'],
    ['huggingface-bert', 'vocab_size', undefined, 'a positive integer'],
    ['huggingface-roformer', 'rotary_value', true, 'false'],
    ['huggingface-roformer', 'embedding_size', 16, 'the hidden size, 32'],
    ['huggingface-roformer', 'is_decoder', true, 'false'],
  ] as const)('of %s with %s %s are refused', async (name, field, value, expected) => {
    const target = join(directory, 'broken');
    cpSync(fixturePath(name), target, { recursive: true });
    const path = join(target, 'config.json');
    const fields = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
    writeFileSync(path, JSON.stringify({ ...fields, [field]: value }));
    await expect(readHuggingFaceBert({ directory: target })).rejects.toMatchObject({
      code: 'MTL_HUGGING_FACE_CONFIG',
      expected: expect.stringContaining(expected) as string,
    });
  });

  it.each([
    ['halves of heads rotated', { rotaryInterleaved: false }],
    ['another base', { rotaryBase: 500 }],
    ['scaled angles', { useRopeScaling: true }],
    ['a sentence-order head', { sentenceOrderHead: true }],
  ])('are not written for a RoFormer with %s', async (_, change) => {
    const { source, dispose } = await loadBert(fixturePath('huggingface-roformer'));
    const model = { ...source.configuration, ...change };
    const saving = writeHuggingFaceBert({ directory: join(directory, 'other'), model, tensors: [] });
    await expect(saving).rejects.toMatchObject({ code: 'MTL_HUGGING_FACE_CONFIG', exitCode: 2 });
    expect(readdirSync(directory)).toEqual([]);
    dispose();
  });

  it('are not written for layer norm before the sublayers', async () => {
    const { source, dispose } = await loadBert(fixturePath('huggingface-bert'));
    const model = { ...source.configuration, layerNormPlacement: 'pre' } as const;
    const target = join(directory, 'pre');
    const saving = writeHuggingFaceBert({ directory: target, model, tensors: [] });
    await expect(saving).rejects.toMatchObject({ code: 'MTL_HUGGING_FACE_LAYER_NORM', exitCode: 2 });
    expect(existsSync(target)).toBe(false);
    expect(readdirSync(directory)).toEqual([]);
    dispose();
  });
});
