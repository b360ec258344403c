import type { PositionEmbeddingType } from '@mtl/models';
import * as z from 'zod';
import { flagFacts } from '../flags/flag-kinds.js';

/** The models that can be trained. */
export const modelKinds = ['gpt', 'bert'] as const;

export type ModelKind = (typeof modelKinds)[number];

/** Values of the architecture that are known so far, by the keys of a model's configuration. */
export type KnownValues = Readonly<Record<string, unknown>> & {
  readonly kind?: ModelKind | undefined;
  readonly hiddenSize?: number | undefined;
  readonly numAttentionHeads?: number | undefined;
  readonly groupQueryAttention?: boolean | undefined;
  readonly ffnHiddenSize?: number | undefined;
  readonly swiglu?: boolean | undefined;
  readonly squaredRelu?: boolean | undefined;
  readonly quickGeglu?: boolean | undefined;
  readonly numExperts?: number | undefined;
  readonly moeRouterEnableExpertBias?: boolean | undefined;
  readonly moeExpertCapacityFactor?: number | undefined;
  readonly positionEmbeddingType?: PositionEmbeddingType | undefined;
  readonly useRopeScaling?: boolean | undefined;
  readonly yarnAttentionFactor?: number | undefined;
  readonly sequenceLength?: number | undefined;
};

/** How a model has the value of a flag, if not as the flag does. */
export interface FieldConversion {
  /** Converts the flag's value to the value in the configuration of a model. */
  readonly asModel: (flag: unknown) => unknown;
  /** Converts the value in the configuration of a model to the flag's value. */
  readonly asFlag: (model: unknown) => unknown;
  /** The schema of the value in the configuration of a model. */
  readonly saved: z.ZodType;
}

/** One property of a model's architecture. */
export interface ArchitectureField {
  /** The schema of the field's flag, with kind, range, default and help. */
  readonly flag: z.ZodType;
  /** The field's key in the configuration of a model, which checkpoints save. */
  readonly key: string;
  /** The only kind of model that has the field. Absent: all kinds have it. */
  readonly kind?: ModelKind;
  /**
   * The part of a model that depends on the field. `weights`: the set of weights, or the computation with
   * them; a loaded model must have the same value. `learning`: how the model learns; a resumed run reports
   * another value. `initial-weights`: the weights of a new model. `padding`: rows that no token has.
   */
  readonly decides: 'weights' | 'learning' | 'initial-weights' | 'padding';
  /** The conversion between flag and model. Absent: both have the same value. */
  readonly conversion?: FieldConversion;
  /** True if Megatron-LM requires the flag. */
  readonly isRequired?: true;
  /** True if the value is a size that occurs in the shapes of weights. */
  readonly isSize?: true;
  /**
   * Returns the value if neither a flag nor a saved model gives one. Absent: the default of the flag, which
   * must then match the computation of models without the property.
   */
  readonly otherwise?: (known: KnownValues) => unknown;
  /**
   * Returns whether nothing in a model depends on the field, so that its flag cannot be combined with the
   * model's other flags. Only fields that a run's configuration may lack have this function; their flags have
   * no default.
   */
  readonly isUnused?: (known: KnownValues) => boolean;
}

/** The conversion of a flag that turns off what a model has. */
export const negated = {
  asModel: (isOff: unknown) => !isOff,
  asFlag: (isOn: unknown) => !isOn,
  saved: z.boolean(),
} as const satisfies FieldConversion;

/** The conversion of a switch that models have only where it is on. */
export const presentIfOn = {
  asModel: (isOn: unknown) => (isOn === true ? true : undefined),
  asFlag: (isOn: unknown) => isOn,
  saved: z.boolean(),
} as const satisfies FieldConversion;

/** `isUnused` of a field that models may lack, but that changes every model that has it. */
export const neverUnused = (): boolean => false;

/** Converts the value of a flag to the value in the configuration of a model. */
export function modelValue({ conversion }: ArchitectureField, value: unknown): unknown {
  return value === undefined || conversion === undefined ? value : conversion.asModel(value);
}

/** Converts the value in the configuration of a model to the value of the flag. */
export function flagValue({ conversion }: ArchitectureField, value: unknown): unknown {
  return value === undefined || conversion === undefined ? value : conversion.asFlag(value);
}

/** Returns the flag's value for a model that does not state the field; undefined if nothing gives one. */
export function unstatedValue(field: ArchitectureField, known: KnownValues): unknown {
  return field.otherwise === undefined ? flagFacts.get(field.flag)?.default : field.otherwise(known);
}
