import { CheckpointError } from '@mtl/errors';
import type { GeluKind } from '@mtl/kernels';
import type { JsonFields } from './json-fields.js';

/** The model properties that have been read so far, by their keys in this project's configuration. */
export type KnownProperties = Readonly<Record<string, unknown>>;

/** A model property that config.json states. */
export interface ConfigField {
  /** The property's key in our model configuration. */
  readonly key: string;
  /**
   * The field's possible names in config.json. Writing uses the first name; reading uses the first name that
   * the file contains. The list is empty if the property follows from other fields.
   */
  readonly names: readonly string[];
  /**
   * True if the names are spellings of the same field. In this case, only the first name is written, even if
   * the file that was read used a later spelling.
   */
  readonly hasSpellings?: true;
  /** Additional config.json fields to which the same value is written. */
  readonly alsoWritten?: readonly string[];
  read(fields: JsonFields, known: KnownProperties): unknown;
  /** Returns a description of the valid values if `value` is invalid, otherwise undefined. */
  check?(value: unknown, known: KnownProperties): string | undefined;
  /**
   * Returns the value to write to config.json. If it is undefined, the field is omitted. Default: the model's
   * value.
   */
  write?(value: unknown, model: KnownProperties): unknown;
  /** Returns further config.json fields that the property determines. */
  writeOthers?(value: unknown, model: KnownProperties): Readonly<Record<string, unknown>>;
}

type Names = readonly string[];

/**
 * Makes a field whose value is a positive integer. The field is required unless `otherwise` returns a
 * default.
 */
export function size(key: string, names: Names, otherwise?: (known: KnownProperties) => number): ConfigField {
  const kind = 'a positive integer';
  const read: ConfigField['read'] = (fields, known) =>
    otherwise === undefined ? fields.required(names, kind) : fields.optional(names, kind, otherwise(known));
  return { key, names, read };
}

/** Makes fields of numbers in a range. */
export function checkedNumber({
  isValid,
  expected,
}: {
  readonly isValid: (value: number) => boolean;
  readonly expected: string;
}) {
  return (key: string, name: string, otherwise: number): ConfigField => ({
    key,
    names: [name],
    read: (fields) => fields.optional(name, 'a number', otherwise),
    check: (value) => (isValid(value as number) ? undefined : expected),
  });
}

/** Makes the field of a boolean. */
export function truth(key: string, name: string, otherwise: boolean): ConfigField {
  return { key, names: [name], read: (fields) => fields.optional(name, 'true or false', otherwise) };
}

/** Makes the field for the kind of GELU. config.json contains it as the name of an activation function. */
export function geluField(name: string, otherwise: string): ConfigField {
  return {
    key: 'geluKind',
    names: [name],
    read: (fields) => readGeluKind(fields, { name, otherwise }),
    write: (kind) => ((kind as GeluKind) === 'tanh' ? 'gelu_new' : 'gelu'),
  };
}

/**
 * Reads a model's properties.
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG for a field that is missing or has an invalid value
 */
export function readConfigFields(fields: JsonFields, table: readonly ConfigField[]): KnownProperties {
  const known: Record<string, unknown> = {};
  for (const field of table) {
    const value = field.read(fields, known);
    const expected = field.check?.(value, known);
    if (expected !== undefined) {
      const name = field.names.find((name) => name in fields.values) ?? field.names[0] ?? field.key;
      throw fields.refuse(name, expected);
    }
    known[field.key] = value;
  }
  return known;
}

/** Returns the name under which a file contains a property, for error messages. */
export function nameOfField(fields: JsonFields, table: readonly ConfigField[], key: string): string {
  const names = table.find((field) => field.key === key)?.names ?? [key];
  return names.find((name) => (fields.values[name] ?? null) !== null) ?? names[0] ?? key;
}

/** Returns the config.json fields that state a model's properties. */
export function writeConfigFields(
  model: object,
  table: readonly ConfigField[],
): Readonly<Record<string, unknown>> {
  const properties = model as KnownProperties;
  const entries = table.flatMap(({ key, names, alsoWritten = [], ...field }) => {
    const value = properties[key];
    const written = field.write === undefined ? value : field.write(value, properties);
    const own = [...names.slice(0, 1), ...alsoWritten].map((name) => [name, written] as const);
    return [...own, ...Object.entries(field.writeOthers?.(value, properties) ?? {})];
  });
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

/**
 * Returns the field names that are read but never written, because writing uses a different name with the
 * same meaning.
 */
export const listSpellings = (table: readonly ConfigField[]): ReadonlySet<string> =>
  new Set(table.flatMap(({ names, hasSpellings }) => (hasSpellings ? names.slice(1) : [])));

/** Returns the given fields sorted by name, which is the order in which transformers writes them. */
export const inOrder = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).sort(([one], [other]) => (one < other ? -1 : 1)));

/**
 * The kinds of GELU, by the names that transformers gives to activation functions. Three names mean the tanh
 * approximation.
 */
const geluKinds: Readonly<Record<string, GeluKind>> = {
  gelu_new: 'tanh',
  gelu_pytorch_tanh: 'tanh',
  gelu_fast: 'tanh',
  gelu: 'erf',
  gelu_python: 'erf',
};

/**
 * Returns the kind of GELU that a configuration names.
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG for any activation function that is not a GELU
 */
function readGeluKind(
  fields: JsonFields,
  { name, otherwise }: { readonly name: string; readonly otherwise: string },
): GeluKind {
  const activation = fields.optional(name, 'a string', otherwise);
  const kind = Object.hasOwn(geluKinds, activation) ? geluKinds[activation] : undefined;
  if (kind !== undefined) return kind;
  throw new CheckpointError(
    'MTL_HUGGING_FACE_CONFIG',
    `${fields.path}: ${name} is ${JSON.stringify(activation)}, which is not supported: the model needs that activation`,
    {
      expected: `one of ${Object.keys(geluKinds).join(', ')}`,
      remedy: 'choose a model whose feed-forward layers have a GELU',
      exitCode: 2,
    },
  );
}
