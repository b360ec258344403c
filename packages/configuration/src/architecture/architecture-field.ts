import type { BlockVariants, ExpertVariants, PositionVariants, TransformerConfiguration } from '@mtl/models';
import * as z from 'zod';
import { flagFacts } from '../flags/flag-kinds.js';

/** The kinds of models that can be trained. */
export const modelKinds = ['gpt', 'bert'] as const;

export type ModelKind = (typeof modelKinds)[number];

interface AnyModel extends TransformerConfiguration, BlockVariants, PositionVariants, ExpertVariants {
  readonly kind: ModelKind;
  readonly sequenceLength: number;
}

/**
 * The architecture values that have been determined so far. The keys are the same as in a model's
 * configuration.
 */
export type KnownValues = Readonly<Record<string, unknown>> & {
  readonly [Key in keyof AnyModel]?: AnyModel[Key] | undefined;
};

/** The conversion of a flag's value to the value in a model's configuration, and back. */
export interface FieldConversion {
  /** Converts a flag's value to the value in a model's configuration. */
  readonly asModel: (flag: unknown) => unknown;
  /** Converts the value in a model's configuration to a flag's value. */
  readonly asFlag: (model: unknown) => unknown;
  /** The schema of the value in a model's configuration. */
  readonly saved: z.ZodType;
}

/** A property of a model's architecture, and its flag. */
export interface ArchitectureField {
  /** The schema of the field's flag, with type, range, default and help. */
  readonly flag: z.ZodType;
  /** The field's key in a model's configuration, which checkpoints save. Default: the option of the flag. */
  readonly key: string;
  /** The only kind of model that has the field; undefined: all kinds. */
  readonly kind: ModelKind | undefined;
  /**
   * The effect of the field on a model. `weights` (default): the set of weights, or the computation with
   * them; a loaded model must have the same value. `learning`: how the model is trained; a resumed run
   * reports another value. `initial-weights`: the weights of a new model. `padding`: the number of vocabulary
   * rows that belong to no token.
   */
  readonly decides: 'weights' | 'learning' | 'initial-weights' | 'padding';
  /**
   * The conversion between the value of the flag and the value in a model. Absent: both values are the same.
   */
  readonly conversion?: FieldConversion;
  /** True if Megatron-LM requires the flag. */
  readonly isRequired?: true;
  /** True if the value is a dimension in the shapes of weights. */
  readonly isSize?: true;
  /**
   * Returns the value that is used if neither a flag nor a saved model gives a value. Without this function,
   * the flag's default is used. The default must then describe what saved models without this property
   * compute.
   */
  readonly otherwise?: (known: KnownValues) => unknown;
  /**
   * Returns true if the field has no effect in a model with the known values. The field's flag is then
   * rejected. A field with this function is optional in a run's configuration, and its flag has no default.
   */
  readonly isUnused?: (known: KnownValues) => boolean;
}

/** The facts that a table states about a field, in addition to its flag and its kind of model. */
type FieldFacts = Partial<Omit<ArchitectureField, 'flag' | 'kind'>>;

/** Returns a function that makes fields of a kind of model from a flag and facts. */
const fieldsOf =
  <Kind extends ModelKind | undefined>(kind: Kind) =>
  <Schema extends z.ZodType>(flag: Schema, facts: FieldFacts = {}) => ({ flag, kind, ...facts });

/** Makes a field that all kinds of models have. */
export const ofAll = fieldsOf(undefined);
/** Makes a field that only a GPT has. */
export const ofGpt = fieldsOf('gpt');
/** Makes a field that only a BERT has. */
export const ofBert = fieldsOf('bert');

/**
 * Returns a function that makes fields that a GPT can have only if `has` returns true for its other values.
 */
export const onlyWith =
  (has: (known: KnownValues) => boolean) =>
  <Schema extends z.ZodType>(flag: Schema, facts: FieldFacts = {}) => {
    const isUnused = (known: KnownValues): boolean => !has(known) || facts.isUnused?.(known) === true;
    const otherwise = (known: KnownValues) => (isUnused(known) ? undefined : facts.otherwise?.(known));
    return ofGpt(flag, { ...facts, isUnused, otherwise });
  };

/** Makes a field that every GPT can have or lack. */
export const optional = onlyWith(() => true);

/** The conversion of a flag that switches off a property of models. */
export const negated = {
  asModel: (isOff: unknown) => !isOff,
  asFlag: (isOn: unknown) => !isOn,
  saved: z.boolean(),
} as const satisfies FieldConversion;

/** The conversion of a switch. A model has the property only if the switch is on. */
export const presentIfOn = {
  asModel: (isOn: unknown) => (isOn === true ? true : undefined),
  asFlag: (isOn: unknown) => isOn,
  saved: z.boolean(),
} as const satisfies FieldConversion;

/** The `isUnused` function of an optional field that always has an effect if present. */
export const neverUnused = (): boolean => false;

/** Converts a flag's value to the value in a model's configuration. */
export function modelValue({ conversion }: ArchitectureField, value: unknown): unknown {
  return value === undefined || conversion === undefined ? value : conversion.asModel(value);
}

/** Converts the value in a model's configuration to the flag's value. */
export function flagValue({ conversion }: ArchitectureField, value: unknown): unknown {
  return value === undefined || conversion === undefined ? value : conversion.asFlag(value);
}

/** Returns the flag's value for a model that lacks the field; undefined if there is no default. */
export function unstatedValue(field: ArchitectureField, known: KnownValues): unknown {
  return field.otherwise === undefined ? flagFacts.get(field.flag)?.default : field.otherwise(known);
}
