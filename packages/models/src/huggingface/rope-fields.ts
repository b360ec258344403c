import type { ConfigField, KnownProperties } from './config-fields.js';
import type { JsonFields } from './json-fields.js';

/** The scaling of Llama 3.1, the only one of its kind that models here have. */
const llama3 = { low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 } as const;

const usualBase = 10_000;
const read = ['rope_theta', 'rope_type', 'type', 'factor', 'partial_rotary_factor', ...Object.keys(llama3)];

interface Rope {
  readonly base: number;
  readonly interpolation: number;
  readonly llama3Factor: number | undefined;
}

type Parameters = Readonly<Record<string, unknown>>;

/**
 * The rotary position embeddings of a config.json: `rope_theta` and `rope_scaling`, as transformers wrote
 * them before version 5, or `rope_parameters`; a file may have both where they agree.
 */
function ropeOf(fields: JsonFields, defaultBase = usualBase): Rope {
  const [name, parameters] = parametersOf(fields);
  const refuse = (needs: string, expected: string) => fields.unsupported(name, { needs, expected });
  const [unknown] = Object.keys(parameters).filter((key) => !read.includes(key));
  if (unknown !== undefined) throw refuse(`${unknown} of its positions`, read.join(', '));
  if ((parameters.partial_rotary_factor ?? 1) !== 1) {
    throw refuse('rotary position embeddings of a part of each head', 'a partial_rotary_factor of 1');
  }
  const base = parameters.rope_theta ?? fields.optional('rope_theta', 'a number', defaultBase);
  if (typeof base !== 'number' || !(base > 0)) throw fields.refuse(name, 'a rope_theta above 0');
  const type = parameters.rope_type ?? parameters.type ?? 'default';
  const { factor } = parameters;
  switch (type) {
    case 'default':
      return { base, interpolation: 1, llama3Factor: undefined };
    case 'linear':
      if (Number.isSafeInteger(factor) && (factor as number) > 0) {
        return { base, interpolation: factor as number, llama3Factor: undefined };
      }
      throw refuse('that factor of its positions', 'a positive integer as factor');
    case 'llama3': {
      const other = Object.entries(llama3).find(([key, value]) => parameters[key] !== value);
      if (other !== undefined) throw refuse(`that ${other[0]}`, `${other[0]} ${other[1]}`);
      if (typeof factor === 'number' && factor > 0) return { base, interpolation: 1, llama3Factor: factor };
      throw fields.refuse(name, 'a factor above 0');
    }
    default:
      throw refuse(
        `positions of the rope type ${JSON.stringify(type)}`,
        'a rope_type default, linear or llama3',
      );
  }
}

function parametersOf(fields: JsonFields): readonly [name: string, Parameters] {
  const [older, newer] = ['rope_scaling', 'rope_parameters'].map((name) => {
    const value = fields.values[name] ?? undefined;
    const isObject = typeof value === 'object' && !Array.isArray(value);
    if (value !== undefined && !isObject) throw fields.refuse(name, 'an object or null');
    return value as Parameters | undefined;
  });
  const theta = fields.values.rope_theta ?? undefined;
  const name = newer === undefined ? 'rope_scaling' : 'rope_parameters';
  for (const [key, value] of Object.entries(newer ?? {})) {
    const former = { ...(theta === undefined ? {} : { rope_theta: theta }), ...older }[key];
    if (former !== undefined && former !== value) {
      throw fields.refuse(name, `the ${key} ${JSON.stringify(former)} of the other fields`);
    }
  }
  return [name, { ...older, ...newer }];
}

/** One number of the rotary position embeddings. */
const ropeField = (key: string, value: (rope: Rope) => unknown): ConfigField => ({
  key,
  names: [],
  read: (fields) => value(ropeOf(fields)),
});

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
    names: ['rope_theta', 'rope_parameters', 'rope_scaling'],
    read: (fields) => ropeOf(fields, defaultBase).base,
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
  ropeField('rotarySeqLenInterpolationFactor', ({ interpolation }) => interpolation),
  ropeField('useRopeScaling', ({ llama3Factor }) => llama3Factor !== undefined),
  ropeField('ropeScalingFactor', ({ llama3Factor }) => llama3Factor ?? 8),
];

function scalingOf(model: KnownProperties): Parameters | undefined {
  const { useRopeScaling, ropeScalingFactor = 8, rotarySeqLenInterpolationFactor: factor = 1 } = model;
  if (useRopeScaling === true) return { rope_type: 'llama3', factor: ropeScalingFactor, ...llama3 };
  return factor === 1 ? undefined : { rope_type: 'linear', factor };
}
