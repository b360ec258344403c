import type { CheckpointError } from '@mtl/errors';
import { llama3Scaling } from '@mtl/models/internal';
import type { ConfigField, KnownProperties } from './config-fields.js';
import type { JsonFields } from './json-fields.js';
import { type RopeParameters, ropeParametersOf, writtenYarn, yarnProperties } from './rope-parameters.js';

const usualBase = 10_000;

/** Fields of positions without scaling. */
const unscaled = {
  positionEmbeddingType: 'rope',
  rotarySeqLenInterpolationFactor: 1,
  useRopeScaling: false,
  ropeScalingFactor: 8,
} as const;

/** Reads the properties of a model of a rope type, but for the base. */
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

/** Types of transformers with which a text's angles depend on its length, so that no table has them. */
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

/** Returns the numbers that are not those of Llama 3.1, which models do not state. */
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

/** Returns the rotary position embeddings of a config.json, as properties of a model. */
function propertiesOf(fields: JsonFields, known: KnownProperties): KnownProperties {
  const parameters = ropeParametersOf(fields, known);
  const { type } = parameters;
  if (!Object.hasOwn(types, type)) throw unknownType(parameters);
  parameters.checkNames();
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

function baseOf(fields: JsonFields, known: KnownProperties, defaultBase: number): number {
  const parameters = ropeParametersOf(fields, known);
  const base = parameters.values.rope_theta ?? fields.optional('rope_theta', 'a number', defaultBase);
  // frequencies of yarn fall with their index
  const lowest = parameters.type === 'yarn' ? 1 : 0;
  if (typeof base === 'number' && base > lowest) return base;
  throw parameters.refuse(`a rope_theta above ${lowest}`);
}

/** Properties of which config.json states all or none. */
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
 * Rotary position embeddings, in both spellings.
 *
 * @param options.defaultBase that of a file that states none. Default: 10,000
 */
export const ropeFieldsOf = ({
  defaultBase = usualBase,
}: {
  readonly defaultBase?: number;
} = {}): readonly ConfigField[] => [
  {
    key: 'rotaryBase',
    names: ['rope_theta', 'rope_parameters', 'rope_scaling', 'original_max_position_embeddings'],
    read: (fields, known) => baseOf(fields, known, defaultBase),
    write: (base) => base ?? usualBase,
    writeOthers: (base, model) => {
      const scaling = scalingOf(model);
      const own = { rope_theta: base ?? usualBase };
      return {
        // transformers 4 reads this, and 5 the other
        rope_scaling: scaling ?? null,
        rope_parameters: { ...(scaling ?? { rope_type: 'default' }), ...own },
      };
    },
  },
  ...scaledProperties.map(
    (key): ConfigField => ({ key, names: [], read: (fields, known) => propertiesOf(fields, known)[key] }),
  ),
];

/** Returns the fields of scaled positions; undefined where they are not scaled. */
function scalingOf(model: KnownProperties): KnownProperties | undefined {
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
