import type { CheckpointError } from '@mtl/errors';
import type { KnownProperties } from './config-fields.js';
import type { JsonFields } from './json-fields.js';

type Values = Readonly<Record<string, unknown>>;

/** What is read; other types ignore what is of one, as transformers does. */
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
  /** Of the model. */
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

  /** A number above 0. */
  positive(name: string): number {
    const value = this.values[name];
    if (typeof value === 'number' && value > 0 && Number.isFinite(value)) return value;
    throw this.refuse(`a number above 0 as ${name}`);
  }

  /** A number of 0 or more; 0 where it is missing. */
  number(name: string): number {
    return this.isStated(name) && this.values[name] !== 0 ? this.positive(name) : 0;
  }

  truth(name: string, otherwise: boolean): boolean {
    // null, which is false in transformers, is refused
    const value = name in this.values ? this.values[name] : otherwise;
    if (typeof value === 'boolean') return value;
    throw this.refuse(`true or false as ${name}`);
  }

  /** Positions of pretraining: those of the model where the file states no others. */
  originalPositions(): number {
    return this.isStated(original) ? this.positive(original) : this.maxPositions;
  }

  /** @throws CheckpointError for what nothing here computes with any type */
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

  /** The error for values that are not valid. */
  refuse(expected: string): CheckpointError {
    return this.#fields.refuse(this.#name, expected);
  }

  /** The error for what no model here computes. */
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
 * The parameters in `rope_scaling` and `rope_theta`, as transformers wrote them before version 5, or in
 * `rope_parameters`; a file may have both where they agree.
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

/** Positions of pretraining that stand next to the parameters count where angles are scaled by them. */
function positionsApart({ values }: JsonFields, { rope_type, type }: Values): Values {
  const positions = values[original] ?? undefined;
  const areUsed = rope_type !== undefined || type !== undefined;
  return areUsed && positions !== undefined ? { [original]: positions } : {};
}
