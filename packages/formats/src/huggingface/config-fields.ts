import { CheckpointError } from '@mtl/errors';
import type { GeluKind } from '@mtl/kernels';
import type { JsonFields } from './json-fields.js';

/** The properties of a model that have been read so far, by their keys in this project's configuration. */
export type KnownProperties = Readonly<Record<string, unknown>>;

/** A property of a model that config.json states. */
export interface ConfigField {
  /** The property's key in our configuration of a model. */
  readonly key: string;
  /**
   * The names of the field in config.json. The first name is used for writing. The first name in a file is
   * used for reading. The list is empty if the property follows from other fields.
   */
  readonly names: readonly string[];
  /**
   * True if the names are spellings of the same field. Only the first name is written, even if a file used
   * another spelling.
   */
  readonly hasSpellings?: true;
  /** Further fields of config.json to which the same value is written. */
  readonly alsoWritten?: readonly string[];
  read(fields: JsonFields, known: KnownProperties): unknown;
  /** Returns a description of valid values if the value is invalid; undefined if the value is valid. */
  check?(value: unknown, known: KnownProperties): string | undefined;
  /** Returns the value to write to config.json; undefined omits the field. Default: the model's value. */
  write?(value: unknown, model: KnownProperties): unknown;
  /** Returns further fields of config.json that the property determines. */
  writeOthers?(value: unknown, model: KnownProperties): Readonly<Record<string, unknown>>;
}

type Names = readonly string[];

/** Makes the field of a positive integer. The field is required unless `otherwise` returns a default. */
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

/** Makes the field of the kind of GELU, which config.json names as an activation. */
export function geluField(name: string, otherwise: string): ConfigField {
  return {
    key: 'geluKind',
    names: [name],
    read: (fields) => readGeluKind(fields, { name, otherwise }),
    write: (kind) => ((kind as GeluKind) === 'tanh' ? 'gelu_new' : 'gelu'),
  };
}

/**
 * Reads the properties of a model.
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG for a field that is missing or has a wrong value
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

/** Returns the name under which a file has a property, for error messages. */
export function nameOfField(fields: JsonFields, table: readonly ConfigField[], key: string): string {
  const names = table.find((field) => field.key === key)?.names ?? [key];
  return names.find((name) => (fields.values[name] ?? null) !== null) ?? names[0] ?? key;
}

/** Returns the fields of config.json that state the properties of a model. */
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
 * Returns names of fields that are read but never written. For writing, another name with the same meaning is
 * used.
 */
export const listSpellings = (table: readonly ConfigField[]): ReadonlySet<string> =>
  new Set(table.flatMap(({ names, hasSpellings }) => (hasSpellings ? names.slice(1) : [])));

/** Returns the fields sorted by name, as transformers writes them. */
export const inOrder = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).sort(([one], [other]) => (one < other ? -1 : 1)));

/** Kinds of GELU by the names of activations in transformers. Three names mean the tanh approximation. */
const geluKinds: Readonly<Record<string, GeluKind>> = {
  gelu_new: 'tanh',
  gelu_pytorch_tanh: 'tanh',
  gelu_fast: 'tanh',
  gelu: 'erf',
  gelu_python: 'erf',
};

/**
 * Returns the kind of GELU that a configuration names.
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG for another activation
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
