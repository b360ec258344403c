import { fileURLToPath } from 'node:url';
import { readHuggingFaceGpt } from '@mtl/formats';
import { describe, expect, it } from 'vitest';
import { describeGptModel, type Flags, parseFlags, validateConfiguration } from '../src/index.js';
import { withLoadedFlags } from '../src/internal/index.js';
import {
  architectureFlags,
  checkHuggingFaceArchitecture,
  flagsOfHuggingFace,
  withAskedPositions,
} from '../src/saved/index.js';

/** Returns the flags of a run that loads a fixture of @mtl/models, with further flags. */
async function loading(name: string, line: string) {
  const directory = fileURLToPath(new URL(`../../formats/fixtures/${name}`, import.meta.url));
  const { configuration: model } = await readHuggingFaceGpt({ directory });
  const loaded = flagsOfHuggingFace({ directory, kind: 'gpt', model, tokenizer: undefined });
  return withLoadedFlags(parseFlags(['--load-hf', directory, ...line.split(' ')]), loaded);
}

describe('a GPT with rotary positions that a run loads from Hugging Face', () => {
  it('may have other frequencies and more positions', async () => {
    const yarn =
      '--position-embedding-type yarn --no-use-rope-scaling --rotary-scaling-factor 4 --yarn-original-max-position-embeddings 24 --max-position-embeddings 96';
    expect((await loading('huggingface-llama', yarn)).values).toMatchObject({
      'position-embedding-type': 'yarn',
      'rotary-scaling-factor': 4,
      'max-position-embeddings': 96,
      'num-layers': 2,
    });
    const wider = '--rotary-base 50000 --rotary-seq-len-interpolation-factor 2.5';
    expect((await loading('huggingface-qwen3', wider)).values).toMatchObject({ 'rotary-base': 50_000 });
    const llama3 = '--rope-scaling-factor 8 --rope-scaling-original-max-position-embeddings 24';
    expect((await loading('huggingface-llama', llama3)).values).toMatchObject({ 'rope-scaling-factor': 8 });
  });

  it('is scaled one way, and the error says how', async () => {
    const others = '--micro-batch-size 1 --train-iters 2 --lr 1e-3 --data-path bundled';
    const catchRefusal = async (name: string, line: string) => {
      const flags = await loading(name, `${line} ${others}`);
      return () => validateConfiguration(flags);
    };
    const yarn = '--position-embedding-type yarn';
    expect(await catchRefusal('huggingface-llama', yarn)).toThrow(
      expect.objectContaining({
        code: 'MTL_FLAG_CONFLICT',
        remedy: 'pass --no-use-rope-scaling, or leave --position-embedding-type out',
      }),
    );
    expect(await catchRefusal('huggingface-llama-bias', yarn)).toThrow(
      expect.objectContaining({
        remedy: 'pass --rotary-seq-len-interpolation-factor 1, or leave --position-embedding-type out',
      }),
    );
    expect(await catchRefusal('huggingface-llama', `${yarn} --no-use-rope-scaling`)).not.toThrow();
  });

  it.each([
    ['huggingface-llama', '--position-embedding-type none'],
    ['huggingface-llama', '--position-embedding-type learned_absolute'],
    ['huggingface-llama', '--rotary-interleaved'],
    ['huggingface-llama', '--num-layers 3'],
    // learned position embeddings are weights, so their number cannot change
    ['huggingface-gpt2', '--max-position-embeddings 2048'],
    ['huggingface-gpt2', '--position-embedding-type yarn'],
  ])('has its own weights and no other positions: %s with %s', async (name, line) => {
    await expect(loading(name, line)).rejects.toMatchObject({
      code: 'MTL_FLAG_CONFLICT',
      message: expect.stringContaining('contradicts the Hugging Face directory') as string,
    });
  });
});

it('a loaded model has the positions that a run states, and not the defaults of its flags', () => {
  const configureModel = (line: string) => {
    const run = validateConfiguration(
      parseFlags(['--preset', 'char-10m', '--data-path', 'bundled', ...line.split(' ')]),
    );
    return { run, model: describeGptModel(run.model, 256) };
  };
  const { model } = configureModel('--position-embedding-type rope --rotary-base 500000');
  const plain = configureModel('--position-embedding-type rope');
  expect(withAskedPositions(plain.run, { model, asked: plain.model })).toEqual(model);
  const yarn = configureModel('--position-embedding-type yarn --rotary-scaling-factor 4 --num-layers 3');
  expect(withAskedPositions(yarn.run, { model, asked: yarn.model })).toEqual({
    ...model,
    positionEmbeddingType: 'yarn',
    rotaryScalingFactor: 4,
  });
  const [weights, factor] = ['--mscale 0.5', '--yarn-attention-factor 1.5'].map((line) =>
    configureModel(`--position-embedding-type yarn ${line}`),
  ) as [typeof yarn, typeof yarn];
  for (const [one, other] of [
    [weights, factor],
    [factor, weights],
  ] as const) {
    const merged = withAskedPositions(one.run, { model: other.model, asked: one.model });
    const listFlags = (of: typeof model) => architectureFlags({ kind: 'gpt', model: of });
    expect(listFlags(merged)).toEqual(listFlags(one.model));
  }
  const learned = configureModel('--position-embedding-type learned_absolute --max-position-embeddings 512');
  expect(withAskedPositions(plain.run, { model: learned.model, asked: plain.model })).toEqual(learned.model);
});

it('a factor of attention of a run takes the place of the weights of a model, and the other way round', () => {
  const resolved = (values: Flags, line: string) =>
    withLoadedFlags(parseFlags(line.split(' ')), { source: 'a model', values, fixed: [], vocabularySize: 9 })
      .values;
  const weights = { mscale: 1, 'mscale-all-dim': 0 };
  expect(resolved(weights, '--yarn-attention-factor 1.5')).not.toHaveProperty('mscale');
  expect(resolved(weights, '--yarn-attention-factor 1.5')).not.toHaveProperty('mscale-all-dim');
  const ofFactor = resolved({ 'yarn-attention-factor': 1.5 }, '--mscale 0.5');
  expect(ofFactor).toMatchObject({ mscale: 0.5 });
  expect(ofFactor).not.toHaveProperty('yarn-attention-factor');
});

describe('a model that is written for transformers', () => {
  const configureModel = (line: string) => {
    const llama = '--preset llama3-8b --position-embedding-type';
    const flags = parseFlags([...`${llama} ${line}`.split(' '), '--data-path', 'bundled']);
    return describeGptModel(validateConfiguration(flags).model, 256);
  };
  it.each([
    'yarn',
    'yarn --rotary-scaling-factor 16 --yarn-original-max-position-embeddings 8192',
    'yarn --rotary-scaling-factor 16 --mscale 0.7 --mscale-all-dim 1',
    // transformers states it as an attention_factor
    'yarn --rotary-scaling-factor 16 --mscale 0.7',
    'yarn --rotary-scaling-factor 16 --mscale 0 --mscale-all-dim 0.5',
    'yarn --rotary-scaling-factor 16 --yarn-attention-factor 1.3',
    'yarn --yarn-beta-fast 16 --yarn-beta-slow 2 --no-yarn-correction-range-round-to-int',
    'rope --rotary-seq-len-interpolation-factor 2.5',
    'rope --use-rope-scaling --rope-scaling-low-freq-factor 2 --rope-scaling-original-max-position-embeddings 16',
  ])('keeps its positions: %s', (line) => {
    expect(() => checkHuggingFaceArchitecture({ kind: 'gpt', model: configureModel(line) })).not.toThrow();
  });
});
