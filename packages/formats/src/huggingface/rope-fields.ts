import type { CheckpointError } from '@mtl/errors';
import { llama3Scaling, type YarnVariants, yarnConcentration, yarnScaling } from '@mtl/models';
import type { ConfigField, KnownProperties } from './config-fields.js';
import type { JsonFields } from './json-fields.js';

type Values = Readonly<Record<string, unknown>>;

/**
 * The names of the parameters that at least one rope type reads. A rope type ignores the names that it does
 * not read, as in transformers.
 */
const knownNames = [
  ...[
    'rope_theta',
    'rope_type',
    'type',
    'factor',
    'partial_rotary_factor',
    'low_freq_factor',
    'high_freq_factor',
  ],
  ...['original_max_position_embeddings', 'attention_factor', 'beta_fast', 'beta_slow', 'mscale'],
  ...['mscale_all_dim', 'truncate'],
];

const originalKey = 'original_max_position_embeddings';

/**
 * The parameters of rotary positions in a config.json. A null counts as missing, except where a boolean is
 * expected.
 */
class RopeParameters {
  readonly values: Values;
  /** The model's `max_position_embeddings`. */
  readonly maxPositions: number;
  readonly #fields: JsonFields;
  /** The config.json field that contains the parameters. */
  readonly #name: string;

  constructor(
    fields: JsonFields,
    {
      name,
      values,
      maxPositions,
    }: { readonly name: string; readonly values: Values; readonly maxPositions: number },
  ) {
    this.values = values;
    this.maxPositions = maxPositions;
    this.#fields = fields;
    this.#name = name;
  }

  get type(): string {
    return String(this.values.rope_type ?? this.values.type ?? 'default');
  }

  isStated(name: string): boolean {
    return (this.values[name] ?? undefined) !== undefined;
  }

  /** Returns the parameter `name`, which must be a number above 0. */
  positive(name: string): number {
    const value = this.values[name];
    if (typeof value === 'number' && value > 0 && Number.isFinite(value)) return value;
    throw this.refuse(`a number above 0 as ${name}`);
  }

  /** Returns the parameter `name`, which must not be negative; 0 if the parameter is missing. */
  number(name: string): number {
    return this.isStated(name) && this.values[name] !== 0 ? this.positive(name) : 0;
  }

  truth(name: string, otherwise: boolean): boolean {
    // rejects null, which transformers would interpret as false
    const value = name in this.values ? this.values[name] : otherwise;
    if (typeof value === 'boolean') return value;
    throw this.refuse(`true or false as ${name}`);
  }

  /** Returns the number of positions in pretraining, which is `maxPositions` by default. */
  originalPositions(): number {
    return this.isStated(originalKey) ? this.positive(originalKey) : this.maxPositions;
  }

  /** Returns the fraction of each head's features that is rotated. `otherwise` is the default. */
  share(otherwise: number): number {
    const share = this.isStated('partial_rotary_factor') ? this.positive('partial_rotary_factor') : otherwise;
    if (share <= 1) return share;
    throw this.refuse('a partial_rotary_factor above 0 and at most 1');
  }

  /**
   * Rejects rope parameters that no supported rope type knows.
   *
   * @param isPartial true if models of this model type may rotate only a part of each head
   * @throws CheckpointError
   */
  checkNames(isPartial: boolean): void {
    const unknown = Object.keys(this.values).find((key) => !knownNames.includes(key));
    if (unknown !== undefined) {
      throw this.unsupported({ needs: `${unknown} of its positions`, expected: knownNames.join(', ') });
    }
    const isPlain = this.type === 'default' || this.type === 'linear';
    if ((isPartial && isPlain) || (this.values.partial_rotary_factor ?? 1) === 1) return;
    throw this.unsupported({
      needs: 'rotary position embeddings of a part of each head',
      expected: `a partial_rotary_factor of 1${isPartial ? ', or a rope_type default or linear' : ''}`,
    });
  }

  /** Returns the error for an invalid value. */
  refuse(expected: string): CheckpointError {
    return this.#fields.refuse(this.#name, expected);
  }

  /** Returns the error for a feature that no supported model has. */
  unsupported({
    remedy,
    ...reason
  }: {
    readonly needs: string;
    readonly expected: string;
    readonly remedy?: string | undefined;
  }): CheckpointError {
    return this.#fields.unsupported(this.#name, { ...reason, ...(remedy === undefined ? {} : { remedy }) });
  }
}

/**
 * Returns the rope parameters: `rope_parameters` of transformers 5, or `rope_scaling` and `rope_theta` of
 * earlier versions. A file may contain both notations if their values are equal.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG if the two notations differ
 */
function readRopeParameters(fields: JsonFields, known: KnownProperties): RopeParameters {
  const [older, newer] = ['rope_scaling', 'rope_parameters'].map((name) => {
    const value = fields.values[name] ?? undefined;
    const isObject = typeof value === 'object' && !Array.isArray(value);
    if (value !== undefined && !isObject) throw fields.refuse(name, 'an object or null');
    return value as Values | undefined;
  });
  const name = newer === undefined ? 'rope_scaling' : 'rope_parameters';
  const values = { ...older, ...newer };
  const positions = positionsApart(fields, values);
  const theta = fields.values.rope_theta ?? undefined;
  const factor = fields.values.partial_rotary_factor ?? undefined;
  const former: Values = { ...(theta === undefined ? {} : { rope_theta: theta }), ...positions, ...older };
  for (const [key, value] of Object.entries(values)) {
    const other = former[key];
    if (other === undefined || other === value) continue;
    throw fields.refuse(name, `the ${key} ${JSON.stringify(other)} of the other fields`);
  }
  return new RopeParameters(fields, {
    name,
    // a rope parameter has precedence over the separate field with the same name, because transformers writes
    // the model type's default into that field
    values: { ...(factor === undefined ? {} : { partial_rotary_factor: factor }), ...positions, ...values },
    maxPositions: known.maxPositionEmbeddings as number,
  });
}

/**
 * Returns the number of positions in pretraining if a field outside of the rope parameters states it. The
 * field affects only rope types that scale positions.
 */
function positionsApart({ values }: JsonFields, { rope_type, type }: Values): Values {
  const positions = values[originalKey] ?? undefined;
  const areUsed = rope_type !== undefined || type !== undefined;
  return areUsed && positions !== undefined ? { [originalKey]: positions } : {};
}

const usualBase = 10_000;

/** The properties of a model without scaled positions. */
const unscaled = {
  positionEmbeddingType: 'rope',
  rotarySeqLenInterpolationFactor: 1,
  useRopeScaling: false,
  ropeScalingFactor: 8,
} as const;

/** Reads the model's properties from the parameters of one rope type. The base is read separately. */
type RopeType = (parameters: RopeParameters) => KnownProperties;

const types: Readonly<Record<string, RopeType>> = {
  default: () => unscaled,
  linear: (parameters) => ({
    ...unscaled,
    rotarySeqLenInterpolationFactor: parameters.positive('factor'),
  }),
  llama3: (parameters) => ({
    ...unscaled,
    useRopeScaling: true,
    ropeScalingFactor: parameters.positive('factor'),
    ...llama3Bands(parameters),
  }),
  yarn: (parameters) => ({ ...unscaled, positionEmbeddingType: 'yarn', ...yarnProperties(parameters) }),
};

/**
 * transformers' rope types whose angles depend on a text's length, so that a fixed table of angles is
 * impossible.
 */
const dependentOnLength: Readonly<Record<string, { readonly needs: string; readonly remedy: string }>> = {
  dynamic: {
    needs: 'whose frequencies change as a text grows beyond max_position_embeddings',
    remedy:
      'set the rope_type to default: up to max_position_embeddings it computes the same; for longer texts, choose a model with yarn',
  },
  longrope: {
    needs: 'whose frequencies are others in short texts than in long ones',
    remedy: 'choose another model: this one cannot be computed here',
  },
};

/**
 * Returns the properties of Llama 3.1's scaling. A property is undefined if its value equals the default,
 * which is Llama 3.1's value.
 */
function llama3Bands(parameters: RopeParameters): KnownProperties {
  const [low, high] = [parameters.positive('low_freq_factor'), parameters.positive('high_freq_factor')];
  if (high <= low) throw parameters.refuse('a high_freq_factor above low_freq_factor');
  const original = parameters.originalPositions();
  const usual = llama3Scaling({});
  return {
    ropeScalingOriginalMaxPositionEmbeddings: original === usual.originalPositions ? undefined : original,
    ropeScalingLowFreqFactor: low === usual.lowFrequencyFactor ? undefined : low,
    ropeScalingHighFreqFactor: high === usual.highFrequencyFactor ? undefined : high,
  };
}

/** Returns the properties of rotary positions that a config.json states. */
function readProperties(fields: JsonFields, known: KnownProperties, isPartial: boolean): KnownProperties {
  const parameters = readRopeParameters(fields, known);
  const { type } = parameters;
  if (!Object.hasOwn(types, type)) throw unknownType(parameters);
  parameters.checkNames(isPartial);
  return types[type]!(parameters);
}

function unknownType(parameters: RopeParameters): CheckpointError {
  const { type } = parameters;
  const reason = Object.hasOwn(dependentOnLength, type) ? dependentOnLength[type] : undefined;
  const what = `positions of the rope type ${JSON.stringify(type)}`;
  return parameters.unsupported({
    needs: reason === undefined ? what : `${what}, ${reason.needs}`,
    expected: `a rope_type ${Object.keys(types).join(' or ')}`,
    remedy: reason?.remedy,
  });
}

function readBase(fields: JsonFields, known: KnownProperties, defaultBase: number): number {
  const parameters = readRopeParameters(fields, known);
  const base = parameters.values.rope_theta ?? fields.optional('rope_theta', 'a number', defaultBase);
  // YaRN requires frequencies that decrease with their index, so its base must be above 1
  const lowest = parameters.type === 'yarn' ? 1 : 0;
  if (typeof base === 'number' && base > lowest) return base;
  throw parameters.refuse(`a rope_theta above ${lowest}`);
}

/** The properties whose config.json fields are written together or not at all. */
const scaledProperties = [
  'positionEmbeddingType',
  'rotarySeqLenInterpolationFactor',
  'useRopeScaling',
  'ropeScalingFactor',
  'ropeScalingOriginalMaxPositionEmbeddings',
  'ropeScalingLowFreqFactor',
  'ropeScalingHighFreqFactor',
  'rotaryScalingFactor',
  'yarnOriginalMaxPositionEmbeddings',
  'yarnBetaFast',
  'yarnBetaSlow',
  'yarnCorrectionRangeRoundToInt',
  'mscale',
  'mscaleAllDim',
  'yarnAttentionFactor',
] as const;

/**
 * Returns the fields of rotary positions, in the notations of both transformers 4 and 5.
 *
 * @param options.defaultBase the base if the file states none. Default: 10,000
 * @param options.defaultShare the rotated fraction of each head if the file does not state it. Default:
 *   models always rotate complete heads
 */
export const listRopeFields = ({
  defaultBase = usualBase,
  defaultShare,
}: {
  readonly defaultBase?: number;
  readonly defaultShare?: number;
} = {}): readonly ConfigField[] => [
  {
    key: 'rotaryBase',
    names: ['rope_theta', 'rope_parameters', 'rope_scaling', 'original_max_position_embeddings'],
    read: (fields, known) => readBase(fields, known, defaultBase),
    write: (base) => base ?? usualBase,
    writeOthers: (base, model) => {
      const scaling = writeScaling(model);
      const { rotaryPercent = 1 } = model;
      const share = defaultShare === undefined ? {} : { partial_rotary_factor: rotaryPercent };
      const own = { rope_theta: base ?? usualBase, ...share };
      return {
        // transformers 4 reads this field, transformers 5 reads `rope_parameters`
        rope_scaling: scaling ?? null,
        rope_parameters: { ...(scaling ?? { rope_type: 'default' }), ...own },
      };
    },
  },
  ...scaledProperties.map(
    (key): ConfigField => ({
      key,
      names: [],
      read: (fields, known) => readProperties(fields, known, defaultShare !== undefined)[key],
    }),
  ),
  ...(defaultShare === undefined ? [] : [rotatedShare(defaultShare)]),
];

/** Makes the field for the rotated fraction of each head. `otherwise` is the default. */
const rotatedShare = (otherwise: number): ConfigField => ({
  key: 'rotaryPercent',
  names: ['partial_rotary_factor'],
  read: (fields, known) => readRopeParameters(fields, known).share(otherwise),
  check: (value, { kvChannels: size }) => {
    const rotated = Math.floor((size as number) * (value as number));
    return rotated > 0 && rotated % 2 === 0
      ? undefined
      : `a share that is an even number of ${size as number} features`;
  },
  write: (value) => value ?? 1,
});

/** Returns the fields for scaled positions; undefined if the positions are not scaled. */
function writeScaling(model: KnownProperties): KnownProperties | undefined {
  const { positionEmbeddingType, useRopeScaling, rotarySeqLenInterpolationFactor: factor = 1 } = model;
  if (positionEmbeddingType === 'yarn') return { rope_type: 'yarn', ...writtenYarn(model) };
  if (useRopeScaling === true) {
    const scaling = llama3Scaling(model);
    return {
      rope_type: 'llama3',
      factor: scaling.factor,
      low_freq_factor: scaling.lowFrequencyFactor,
      high_freq_factor: scaling.highFrequencyFactor,
      original_max_position_embeddings: scaling.originalPositions,
    };
  }
  return factor === 1 ? undefined : { rope_type: 'linear', factor };
}

/**
 * Returns the model's properties for the rope type `yarn`. As in transformers, attention_factor overrides
 * mscale and mscale_all_dim, which have an effect only if both are given and neither is 0.
 */
function yarnProperties(parameters: RopeParameters): YarnVariants {
  const originalPositions = parameters.originalPositions();
  const factor = parameters.isStated('factor')
    ? parameters.positive('factor')
    : parameters.maxPositions / originalPositions;
  // transformers uses the default for 0, too
  const [betaFast, betaSlow] = [parameters.number('beta_fast') || 32, parameters.number('beta_slow') || 1];
  if (betaFast < betaSlow) throw parameters.refuse('a beta_fast of beta_slow or more');
  return {
    rotaryScalingFactor: factor,
    yarnOriginalMaxPositionEmbeddings: originalPositions,
    yarnBetaFast: betaFast,
    yarnBetaSlow: betaSlow,
    yarnCorrectionRangeRoundToInt: parameters.truth('truncate', true),
    ...yarnWeights(parameters),
  };
}

function yarnWeights(parameters: RopeParameters): YarnVariants {
  if (parameters.isStated('attention_factor')) {
    return { yarnAttentionFactor: parameters.positive('attention_factor') };
  }
  const [own, all] = [parameters.number('mscale'), parameters.number('mscale_all_dim')];
  const areUsed = own !== 0 && all !== 0;
  return { mscale: areUsed ? own : 1, mscaleAllDim: areUsed ? all : 0 };
}

/** Returns YaRN's config.json fields. Most fields whose values are defaults are omitted. */
function writtenYarn(model: YarnVariants): KnownProperties {
  const { factor, originalPositions, betaFast, betaSlow, roundsRange } = yarnScaling(model);
  return {
    factor,
    original_max_position_embeddings: originalPositions,
    ...(betaFast === 32 ? {} : { beta_fast: betaFast }),
    ...(betaSlow === 1 ? {} : { beta_slow: betaSlow }),
    ...(roundsRange ? {} : { truncate: false }),
    ...writtenYarnWeights(model),
  };
}

function writtenYarnWeights(model: YarnVariants): KnownProperties {
  const { mscale = 1, mscaleAllDim = 0, yarnAttentionFactor } = model;
  if (yarnAttentionFactor === undefined && mscale !== 0 && mscaleAllDim !== 0) {
    return { mscale, mscale_all_dim: mscaleAllDim };
  }
  const { rotaryScalingFactor } = model;
  const concentration = yarnConcentration(model);
  // without attention_factor and mscale, transformers computes the attention factor for an mscale of 1 and an
  // mscale_all_dim of 0
  const isUsual =
    yarnAttentionFactor === undefined && concentration === yarnConcentration({ rotaryScalingFactor });
  return isUsual ? {} : { attention_factor: concentration };
}
