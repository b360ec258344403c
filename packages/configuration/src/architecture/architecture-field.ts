import type { PositionEmbeddingType } from '@mtl/models';
import type * as z from 'zod';
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
  readonly windowSize?: string | undefined;
  readonly positionEmbeddingType?: PositionEmbeddingType | undefined;
  readonly useRopeScaling?: boolean | undefined;
  readonly yarnAttentionFactor?: number | undefined;
  readonly sequenceLength?: number | undefined;
};

/** One property of a model's architecture. */
export interface ArchitectureField {
  /** The schema of the field's flag, with kind, range, default and help. */
  readonly flag: z.ZodType;
  /** The only kind of model that has the field. Absent: all kinds have it. */
  readonly kind?: ModelKind;
  /**
   * The part of a model that depends on the field. `weights`: the set of weights, or the computation with
   * them; a loaded model must have the same value. `learning`: how the model learns; a resumed run reports
   * another value. `initial-weights`: the weights of a new model. `padding`: rows that no token has.
   */
  readonly decides: 'weights' | 'learning' | 'initial-weights' | 'padding';
  /** The field's key in the configuration of a model, which checkpoints save. */
  readonly key: string;
  /** True if the value in the model's configuration is the opposite of the flag's value. */
  readonly isNegated?: true;
  /**
   * Converts the flag's value to the value in the model's configuration, and back, if they differ in another
   * way.
   */
  readonly asModel?: (flag: unknown) => unknown;
  readonly asFlag?: (model: unknown) => unknown;
  /** The schema of the saved value. Absent: the schema of the flag. */
  readonly saved?: z.ZodType;
  /**
   * The key of the flag's own value in the configuration of a run. Absent: `key`, with the value of the
   * model.
   */
  readonly configurationKey?: string;
  /** True if Megatron-LM requires the flag. */
  readonly isRequired?: true;
  /** True if the value is a size that occurs in the shapes of weights. */
  readonly isSize?: true;
  /**
   * Returns the value if neither a flag nor a saved model gives one. Absent: the default of the flag, which
   * must then match the computation of models without the property.
   */
  readonly otherwise?: (known: KnownValues) => unknown;
  /** True if the configuration of a run leaves the field out, so that the kind of model decides. */
  readonly isLeftOpen?: true;
  /**
   * True if models may lack the field: then the configurations of a run and of a model have no value under
   * its key, and the flag has no default.
   */
  readonly isOptional?: true;
  /**
   * Returns whether nothing in a model depends on the field, so that its flag cannot be combined with the
   * model's other flags.
   */
  readonly isUnused?: (known: KnownValues) => boolean;
  /** A value of a loaded model that the flag cannot have. */
  readonly withoutFlag?: unknown;
  /**
   * The code of the error about a model whose value a Hugging Face directory cannot record. @mtl/formats
   * knows which properties such a directory records (`huggingFaceProperties`). Default:
   * MTL_HUGGING_FACE_ARCHITECTURE.
   */
  readonly huggingFaceCode?: `MTL_${string}`;
  /** A value of the flag to which a run may change a model that it loads from Hugging Face. */
  readonly replaceable?: unknown;
  /** True if a run may change the field of a loaded model to any value. */
  readonly isReplaceable?: true;
  /**
   * Values to which a run may change the field of a GPT with rotary positions that it loads from Hugging
   * Face, so that the model reads longer sequences than in pretraining: `all`, or a list.
   */
  readonly rotaryAlternatives?: 'all' | readonly unknown[];
}

/** Converts the value of a flag to the value in the configuration of a model. */
export function modelValue({ isNegated, asModel }: ArchitectureField, value: unknown): unknown {
  if (value === undefined) return undefined;
  return asModel === undefined ? (isNegated ? !value : value) : asModel(value);
}

/** Converts the value in the configuration of a model to the value of the flag. */
export function flagValue({ isNegated, asFlag }: ArchitectureField, value: unknown): unknown {
  if (value === undefined) return undefined;
  return asFlag === undefined ? (isNegated ? !value : value) : asFlag(value);
}

/** Returns the flag's value for a model that does not state the field; undefined if nothing gives one. */
export function unstatedValue(field: ArchitectureField, known: KnownValues): unknown {
  return field.otherwise === undefined ? flagFacts.get(field.flag)?.default : field.otherwise(known);
}
