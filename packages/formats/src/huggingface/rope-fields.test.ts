import { readFileSync } from 'node:fs';
import { rotaryFrequencies } from '@mtl/kernels';
import type { PositionVariants } from '@mtl/models';
import { rotarySpecification } from '@mtl/models/internal';
import { describe, expect, it } from 'vitest';
import { readConfigFields, size, writeConfigFields } from './config-fields.js';
import { JsonFields } from './json-fields.js';
import { listRopeFields } from './rope-fields.js';

type Values = Readonly<Record<string, unknown>>;

/** Reference values, computed with transformers by tooling/fixtures/rope-scaling.py. */
const fixture = JSON.parse(
  readFileSync(new URL('../../fixtures/rope-scaling.json', import.meta.url), 'utf8'),
) as {
  readonly frequencies: readonly {
    readonly headSize: number;
    readonly maxPositions: number;
    readonly parameters: Values;
    readonly frequencies: readonly number[];
    readonly concentration: number;
  }[];
};

const table = [size('maxPositionEmbeddings', ['max_position_embeddings']), ...listRopeFields()];
const read = (values: Values): PositionVariants =>
  readConfigFields(new JsonFields('config.json', { max_position_embeddings: 65_536, ...values }), table);
const written = (model: PositionVariants): Values =>
  writeConfigFields({ maxPositionEmbeddings: 65_536, ...model }, table);
const rereadFrom = (model: PositionVariants): PositionVariants => read(written(model));

const yarn = { rope_type: 'yarn', factor: 40, original_max_position_embeddings: 4096 };
const readYarn = (parameters: Values): PositionVariants =>
  read({ rope_parameters: { ...yarn, rope_theta: 10_000, ...parameters } });

/** Returns the rope parameters that are written for `model`, without the parameters that all models have. */
function writtenYarn(model: PositionVariants): Values {
  const { rope_type, factor, original_max_position_embeddings, rope_theta, ...others } = written(model)
    .rope_parameters as Values;
  expect({ rope_type, factor, original_max_position_embeddings, rope_theta }).toEqual({
    ...yarn,
    rope_theta: 10_000,
  });
  return others;
}

const findConcentration = (model: PositionVariants): number | undefined => {
  const scaling = rotarySpecification(model, 64)?.scaling;
  return scaling?.kind === 'yarn' ? scaling.concentration : undefined;
};

describe.each(fixture.frequencies)('transformers computes $parameters with heads of $headSize', (known) => {
  const positions = { max_position_embeddings: known.maxPositions };
  const model = read({ ...positions, rope_parameters: known.parameters });

  it('as it is computed here', () => {
    const specification = rotarySpecification(model, known.headSize)!;
    rotaryFrequencies(specification).forEach((frequency, i) => {
      // the values are float32, and the two libraries compute powers differently, so a few values are rounded
      // differently
      expect(Math.abs(frequency / known.frequencies[i]! - 1), `${i}`).toBeLessThan(5e-7);
    });
    expect(known.frequencies).toHaveLength(known.headSize / 2);
    expect(findConcentration(model) ?? 1).toBeCloseTo(known.concentration, 12);
  });

  it('and it is written as it is read, in both spellings', () => {
    const { rope_parameters, rope_theta, rope_scaling } = writeConfigFields(
      { maxPositionEmbeddings: known.maxPositions, ...model },
      table,
    );
    expect(read({ ...positions, rope_parameters })).toEqual(model);
    expect(read({ ...positions, rope_theta, rope_scaling })).toEqual(model);
  });
});

describe('the concentration of a model with yarn', () => {
  it.each<[Values, number, Values]>([
    [{}, 1.3688879, {}],
    [{ mscale: 1, mscale_all_dim: 1 }, 1, { mscale: 1, mscale_all_dim: 1 }],
    // an mscale of 0 has the same effect as a missing mscale, so neither field is written
    [{ mscale: 0.7, mscale_all_dim: 0 }, 1.3688879, {}],
    [{ mscale: 0, mscale_all_dim: 0.7 }, 1.3688879, {}],
    [{ mscale: 0.7 }, 1.3688879, {}],
    [{ mscale: 0.7, mscale_all_dim: null }, 1.3688879, {}],
    [{ attention_factor: 1.5, mscale: 1, mscale_all_dim: 0.5 }, 1.5, { attention_factor: 1.5 }],
    [{ attention_factor: 1 }, 1, { attention_factor: 1 }],
    [{ attention_factor: null }, 1.3688879, {}],
  ])('with %j is %d, and is written as %j', (parameters, concentration, expected) => {
    const model = readYarn(parameters);
    expect(findConcentration(model)).toBeCloseTo(concentration, 6);
    expect(writtenYarn(model)).toEqual(expected);
  });

  it.each<[PositionVariants, number]>([
    // Megatron-LM does not replace an mscale of 0 by the default, so the file contains the resulting
    // attention factor
    [{ mscale: 0.7, mscaleAllDim: 0 }, 1 + 0.07 * Math.log(40)],
    [{ mscale: 0, mscaleAllDim: 1 }, 1 / (1 + 0.1 * Math.log(40))],
    [{ mscale: 0, mscaleAllDim: 0 }, 1],
  ])("with Megatron-LM's weights %j is written as the factor %d", (weights, factor) => {
    const model: PositionVariants = { ...readYarn({}), ...weights };
    expect(findConcentration(model)).toBe(factor);
    expect(writtenYarn(model)).toEqual({ attention_factor: factor });
    expect(findConcentration(rereadFrom(model))).toBe(factor);
  });
});

describe('further parameters of yarn', () => {
  it('are written where they differ from transformers', () => {
    const others = { beta_fast: 16, beta_slow: 2, truncate: false };
    expect(writtenYarn(readYarn(others))).toEqual(others);
    expect(writtenYarn(readYarn({ beta_fast: 32, beta_slow: null, truncate: true }))).toEqual({});
    // a value of 0 has the same effect as a missing value
    expect(readYarn({ beta_fast: 0, beta_slow: 0 })).toMatchObject({ yarnBetaFast: 32, yarnBetaSlow: 1 });
  });

  it('follow from the positions of the model where they are not there', () => {
    expect(readYarn({ factor: null })).toMatchObject({ rotaryScalingFactor: 16 });
    const { factor, ...open } = yarn;
    expect(read({ rope_parameters: { ...open, rope_theta: 1e4 } })).toMatchObject({
      rotaryScalingFactor: 16,
    });
    expect(readYarn({ original_max_position_embeddings: undefined })).toMatchObject({
      rotaryScalingFactor: factor,
      yarnOriginalMaxPositionEmbeddings: 65_536,
    });
  });

  it('may stand next to the others', () => {
    const apart = { original_max_position_embeddings: 2048 };
    const rope_parameters = { rope_type: 'yarn', factor: 2, rope_theta: 1e4 };
    expect(read({ ...apart, rope_parameters })).toMatchObject({ yarnOriginalMaxPositionEmbeddings: 2048 });
    expect(() => read({ ...apart, rope_parameters: { ...rope_parameters, ...yarn } })).toThrow(
      /rope_parameters is/,
    );
  });
});

it.each<[Values, string, string]>([
  [{ factor: 0 }, 'rope_parameters is', 'a number above 0 as factor'],
  [{ factor: 'four' }, 'rope_parameters is', 'a number above 0 as factor'],
  [{ original_max_position_embeddings: -1 }, 'rope_parameters is', 'original_max_position_embeddings'],
  [{ beta_fast: 1, beta_slow: 2 }, 'rope_parameters is', 'a beta_fast of beta_slow or more'],
  [{ beta_fast: -1 }, 'rope_parameters is', 'a number above 0 as beta_fast'],
  [{ truncate: null }, 'rope_parameters is', 'true or false as truncate'],
  [{ attention_factor: 0 }, 'rope_parameters is', 'a number above 0 as attention_factor'],
  [{ mscale: -1, mscale_all_dim: 1 }, 'rope_parameters is', 'a number above 0 as mscale'],
  [{ rope_theta: 1 }, 'rope_parameters is', 'a rope_theta above 1'],
  [{ finetuned: true }, 'finetuned of its positions', 'rope_theta'],
  [{ long_factor: [1] }, 'long_factor of its positions', 'rope_theta'],
  [{ partial_rotary_factor: 0.5 }, 'a part of each head', 'partial_rotary_factor of 1'],
])('yarn with %j is refused', (parameters, problem, expected) => {
  expect(() => readYarn(parameters)).toThrow(
    expect.objectContaining({
      code: 'MTL_HUGGING_FACE_CONFIG',
      message: expect.stringContaining(problem),
      expected: expect.stringContaining(expected),
    }),
  );
});

it.each<[Values, string, string]>([
  [
    { rope_type: 'dynamic', factor: 2 },
    'the rope type "dynamic", whose frequencies change as a text grows beyond max_position_embeddings',
    'set the rope_type to default: up to max_position_embeddings it computes the same',
  ],
  [
    { type: 'longrope', short_factor: [1], long_factor: [2], original_max_position_embeddings: 4096 },
    'the rope type "longrope", whose frequencies are others in short texts than in long ones',
    'choose another model',
  ],
  [{ rope_type: 'proportional' }, 'positions of the rope type "proportional"', 'choose another model'],
  [{ rope_type: 'toString' }, 'positions of the rope type "toString"', 'choose another model'],
])('%j is refused, with the reason', (rope_scaling, problem, remedy) => {
  expect(() => read({ rope_theta: 1e4, rope_scaling })).toThrow(
    expect.objectContaining({
      message: expect.stringContaining(problem),
      expected: 'a rope_type default or linear or llama3 or yarn',
      remedy: expect.stringContaining(remedy),
    }),
  );
});
