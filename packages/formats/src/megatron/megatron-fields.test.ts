import { describe, expect, it } from 'vitest';
import { readConfigFields, writeConfigFields } from '../huggingface/config-fields.js';
import { JsonFields } from '../huggingface/json-fields.js';
import { listPositionFields, megatronModelTypes } from './megatron-fields.js';

type Values = Readonly<Record<string, unknown>>;

const read = (values: Values, kind: 'gpt' | 'bert' = 'gpt') =>
  Object.fromEntries(
    Object.entries(readConfigFields(new JsonFields('args', values), listPositionFields(kind))).filter(
      ([, value]) => value !== undefined,
    ),
  );

/** Megatron-LM's args for a model with YaRN and default options. */
const usual = {
  position_embedding_type: 'yarn',
  rotary_base: 10_000,
  rotary_percent: 1,
  rotary_interleaved: false,
  rotary_seq_len_interpolation_factor: null,
  use_rope_scaling: false,
  rope_scaling_factor: 8,
  rotary_scaling_factor: 1,
  mscale: 1,
  mscale_all_dim: 0,
  yarn_original_max_position_embeddings: null,
  yarn_beta_fast: null,
  yarn_beta_slow: null,
  yarn_correction_range_round_to_int: null,
};

const model = {
  positionEmbeddingType: 'yarn',
  rotaryBase: 10_000,
  rotaryPercent: 1,
  rotaryInterleaved: false,
  rotarySeqLenInterpolationFactor: 1,
  useRopeScaling: false,
  ropeScalingFactor: 8,
  rotaryScalingFactor: 1,
  mscale: 1,
  mscaleAllDim: 0,
  yarnOriginalMaxPositionEmbeddings: 4096,
  yarnBetaFast: 32,
  yarnBetaSlow: 1,
  yarnCorrectionRangeRoundToInt: true,
};

describe('args of a model with yarn', () => {
  it("have Megatron-LM's numbers where they are None", () => {
    expect(read(usual)).toEqual(model);
    expect(read({ ...usual, mscale: null, mscale_all_dim: null })).toEqual(model);
  });

  it('are read as they are written', () => {
    const other = {
      ...model,
      rotaryScalingFactor: 32,
      mscale: 0.7,
      mscaleAllDim: 0.5,
      yarnOriginalMaxPositionEmbeddings: 2048,
      yarnBetaFast: 16,
      yarnBetaSlow: 2,
      yarnCorrectionRangeRoundToInt: false,
    };
    const args = writeConfigFields(other, listPositionFields('gpt'));
    expect(args).toMatchObject({
      position_embedding_type: 'yarn',
      add_position_embedding: false,
      rotary_scaling_factor: 32,
      mscale: 0.7,
      mscale_all_dim: 0.5,
      yarn_original_max_position_embeddings: 2048,
      yarn_beta_fast: 16,
      yarn_beta_slow: 2,
      yarn_correction_range_round_to_int: false,
    });
    expect(read(args)).toEqual(other);
  });

  it('are not read of other models, which state them too', () => {
    const rope = read({ ...usual, position_embedding_type: 'rope', yarn_beta_fast: 5 });
    expect(rope).toEqual(
      Object.fromEntries(
        Object.entries({ ...model, positionEmbeddingType: 'rope' }).filter(
          ([key]) => !/^(yarn|mscale|rotaryScaling)/.test(key),
        ),
      ),
    );
  });

  it.each<[Values, string, string]>([
    [{ rotary_interleaved: true }, 'rotary_interleaved is true', 'rotary_interleaved false with yarn'],
    [{ rotary_percent: 0.5 }, 'rotary_percent is 0.5', 'rotary_percent 1 with yarn'],
    [{ mscale: -1 }, 'mscale is -1', '0 or more'],
    [{ yarn_beta_slow: 0 }, 'yarn_beta_slow is 0', 'above 0'],
    [{ position_embedding_type: 'mrope' }, 'position_embedding_type is "mrope"', 'rope, yarn, none'],
  ])('are refused with %j', (changes, message, expected) => {
    expect(() => read({ ...usual, ...changes })).toThrow(
      expect.objectContaining({
        message: expect.stringContaining(message),
        expected: expect.stringContaining(expected),
      }),
    );
  });

  it('are refused of a BERT, and rope may be of a part of a head', () => {
    expect(() => read(usual, 'bert')).toThrow(/position_embedding_type is "yarn"/);
    const rope = { ...usual, position_embedding_type: 'rope', rotary_percent: 0.5, rotary_interleaved: true };
    expect(read(rope, 'bert')).toMatchObject({ rotaryPercent: 0.5, rotaryInterleaved: true });
  });
});

describe('args of attention by layer', () => {
  const sizes = { hidden_size: 32, num_layers: 3, num_attention_heads: 4, vocab_size: 100, seq_length: 64 };
  const readAll = (args: Values) =>
    readConfigFields(new JsonFields('args', { ...sizes, ...args }), megatronModelTypes.gpt.fields);

  it.each<[Values, Values]>([
    [{}, { windowAttnSkipFreq: undefined, softmaxType: undefined, noRopeFreq: undefined }],
    [
      { window_size: [7, 0], window_attn_skip_freq: 2 },
      { windowSize: '7,0', windowAttnSkipFreq: 2 },
    ],
    [{ window_size: [7, 0], window_attn_skip_freq: [1, 0, 1] }, { windowAttnSkipFreq: [1, 0, 1] }],
    // if the model has no window, a list of the layers with a window has no effect
    [{ window_attn_skip_freq: 2 }, { windowAttnSkipFreq: undefined }],
    [{ softmax_type: 'vanilla' }, { softmaxType: undefined }],
    [{ softmax_type: 'learnable' }, { softmaxType: 'learnable' }],
    [{ position_embedding_type: 'rope', no_rope_freq: [0, 1, 0] }, { noRopeFreq: [0, 1, 0] }],
    [{ position_embedding_type: 'none', no_rope_freq: 2 }, { noRopeFreq: undefined }],
  ])('are read of %j, and as they are written', (args, expected) => {
    const known = readAll(args);
    expect(known).toMatchObject(expected);
    expect(readAll(writeConfigFields(known, megatronModelTypes.gpt.fields))).toMatchObject(expected);
  });

  it.each<[Values, string, string]>([
    [{ window_size: [7, 0], window_attn_skip_freq: [1] }, 'window_attn_skip_freq is [1]', 'each of 3 layers'],
    [{ softmax_type: 'sigmoid' }, 'softmax_type is "sigmoid"', 'vanilla, off-by-one or learnable'],
    [{ position_embedding_type: 'rope', no_rope_freq: [0, 2, 0] }, 'no_rope_freq is', '0 or 1'],
    [{ position_embedding_type: 'rope', no_rope_freq: 0 }, 'no_rope_freq is 0', 'a positive integer'],
  ])('are refused of %j', (args, message, expected) => {
    expect(() => readAll(args)).toThrow(
      expect.objectContaining({
        message: expect.stringContaining(message),
        expected: expect.stringContaining(expected),
      }),
    );
  });
});

it('refuses padding of the vocabulary that would take all memory', () => {
  const args = { hidden_size: 32, num_layers: 2, num_attention_heads: 4, vocab_size: 100, seq_length: 64 };
  const paddedTo = (rows: number) =>
    readConfigFields(
      new JsonFields('args', { ...args, make_vocab_size_divisible_by: rows }),
      megatronModelTypes.gpt.fields,
    ).makeVocabularySizeDivisibleBy;
  expect(paddedTo(2 ** 20)).toBe(2 ** 20);
  expect(() => paddedTo(30_000_000)).toThrow(
    expect.objectContaining({ message: expect.stringContaining('make_vocab_size_divisible_by') }),
  );
});
