import type { CheckpointError } from '@mtl/errors';
import { type YarnVariants, yarnConcentration, yarnScaling } from '@mtl/models/internal';
import type { KnownProperties } from './config-fields.js';
import type { JsonFields } from './json-fields.js';

type Values = Readonly<Record<string, unknown>>;

/** Names that are read; other types ignore what is of one, as transformers does. */
const names = [
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

const original = 'original_max_position_embeddings';

/** The numbers of rotary position embeddings in a config.json; null counts as missing. */
export class RopeParameters {
  readonly values: Values;
  /** Positions of the model. */
  readonly maxPositions: number;
  readonly #fields: JsonFields;
  /** The field that holds them. */
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

  /** Returns a number above 0. */
  positive(name: string): number {
    const value = this.values[name];
    if (typeof value === 'number' && value > 0 && Number.isFinite(value)) return value;
    throw this.refuse(`a number above 0 as ${name}`);
  }

  /** Returns a number of 0 or more; 0 where it is missing. */
  number(name: string): number {
    return this.isStated(name) && this.values[name] !== 0 ? this.positive(name) : 0;
  }

  truth(name: string, otherwise: boolean): boolean {
    // null, which is false in transformers, is refused
    const value = name in this.values ? this.values[name] : otherwise;
    if (typeof value === 'boolean') return value;
    throw this.refuse(`true or false as ${name}`);
  }

  /** Returns positions of pretraining: those of the model where the file states no others. */
  originalPositions(): number {
    return this.isStated(original) ? this.positive(original) : this.maxPositions;
  }

  /**
   * Refuses parameters that nothing here computes with any type.
   *
   * @throws CheckpointError
   */
  checkNames(): void {
    const unknown = Object.keys(this.values).find((key) => !names.includes(key));
    if (unknown !== undefined) {
      throw this.unsupported({ needs: `${unknown} of its positions`, expected: names.join(', ') });
    }
    if ((this.values.partial_rotary_factor ?? 1) === 1) return;
    throw this.unsupported({
      needs: 'rotary position embeddings of a part of each head',
      expected: 'a partial_rotary_factor of 1',
    });
  }

  /** Returns the error for values that are not valid. */
  refuse(expected: string): CheckpointError {
    return this.#fields.refuse(this.#name, expected);
  }

  /** Returns the error for what no model here computes. */
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
 * Returns the parameters in `rope_scaling` and `rope_theta`, as transformers wrote them before version 5, or
 * in `rope_parameters`; a file may have both where they agree.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG where they do not
 */
export function ropeParametersOf(fields: JsonFields, known: KnownProperties): RopeParameters {
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
  const former: Values = { ...(theta === undefined ? {} : { rope_theta: theta }), ...positions, ...older };
  for (const [key, value] of Object.entries(values)) {
    const other = former[key];
    if (other === undefined || other === value) continue;
    throw fields.refuse(name, `the ${key} ${JSON.stringify(other)} of the other fields`);
  }
  return new RopeParameters(fields, {
    name,
    values: { ...positions, ...values },
    maxPositions: known.maxPositionEmbeddings as number,
  });
}

/**
 * Returns the positions of pretraining that stand next to the parameters: they count where angles are scaled
 * by them.
 */
function positionsApart({ values }: JsonFields, { rope_type, type }: Values): Values {
  const positions = values[original] ?? undefined;
  const areUsed = rope_type !== undefined || type !== undefined;
  return areUsed && positions !== undefined ? { [original]: positions } : {};
}

/**
 * Returns the properties of a model with the rope type yarn, as transformers reads it: an attention_factor
 * counts before the two weights, and these count only where neither is 0 or missing.
 */
export function yarnProperties(parameters: RopeParameters): YarnVariants {
  const originalPositions = parameters.originalPositions();
  const factor = parameters.isStated('factor')
    ? parameters.positive('factor')
    : parameters.maxPositions / originalPositions;
  // 0 is the default as well
  const [betaFast, betaSlow] = [parameters.number('beta_fast') || 32, parameters.number('beta_slow') || 1];
  if (betaFast < betaSlow) throw parameters.refuse('a beta_fast of beta_slow or more');
  return {
    rotaryScalingFactor: factor,
    yarnOriginalMaxPositionEmbeddings: originalPositions,
    yarnBetaFast: betaFast,
    yarnBetaSlow: betaSlow,
    yarnCorrectionRangeRoundToInt: parameters.truth('truncate', true),
    ...weights(parameters),
  };
}

function weights(parameters: RopeParameters): YarnVariants {
  if (parameters.isStated('attention_factor')) {
    return { yarnAttentionFactor: parameters.positive('attention_factor') };
  }
  const [own, all] = [parameters.number('mscale'), parameters.number('mscale_all_dim')];
  const areUsed = own !== 0 && all !== 0;
  return { mscale: areUsed ? own : 1, mscaleAllDim: areUsed ? all : 0 };
}

/** Returns the fields of such a model in config.json; what is as by default is left out. */
export function writtenYarn(model: YarnVariants): KnownProperties {
  const { factor, originalPositions, betaFast, betaSlow, roundsRange } = yarnScaling(model);
  return {
    factor,
    original_max_position_embeddings: originalPositions,
    ...(betaFast === 32 ? {} : { beta_fast: betaFast }),
    ...(betaSlow === 1 ? {} : { beta_slow: betaSlow }),
    ...(roundsRange ? {} : { truncate: false }),
    ...writtenWeights(model),
  };
}

function writtenWeights(model: YarnVariants): KnownProperties {
  const { mscale = 1, mscaleAllDim = 0, yarnAttentionFactor } = model;
  if (yarnAttentionFactor === undefined && mscale !== 0 && mscaleAllDim !== 0) {
    return { mscale, mscale_all_dim: mscaleAllDim };
  }
  const { rotaryScalingFactor } = model;
  const concentration = yarnConcentration(model);
  // that of the weights 1 and 0 is what transformers computes without both
  const isUsual =
    yarnAttentionFactor === undefined && concentration === yarnConcentration({ rotaryScalingFactor });
  return isUsual ? {} : { attention_factor: concentration };
}
