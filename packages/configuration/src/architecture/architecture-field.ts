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
  readonly positionEmbeddingType?: PositionEmbeddingType | undefined;
  readonly useRopeScaling?: boolean | undefined;
  readonly yarnAttentionFactor?: number | undefined;
  readonly sequenceLength?: number | undefined;
};

/** One property of a model's architecture. */
export interface ArchitectureField {
  /** Its flag: kind, range, default and help. */
  readonly flag: z.ZodType;
  /** The only kind of model that has it. Absent: all have it. */
  readonly kind?: ModelKind;
  /**
   * The part of a model that depends on the field. `weights`: the set of weights, or the computation with
   * them; a loaded model must have the same value. `learning`: how the model learns; a resumed run reports
   * another value. `initial-weights`: the weights of a new model. `padding`: rows that no token has.
   */
  readonly decides: 'weights' | 'learning' | 'initial-weights' | 'padding';
  /** Its key in the configuration of a model, with which checkpoints save it. */
  readonly key: string;
  /** True where that value is the opposite of the flag's. */
  readonly isNegated?: true;
  /** Makes that value from the flag's, where they differ in another way, and the flag's from it. */
  readonly asModel?: (flag: unknown) => unknown;
  readonly asFlag?: (model: unknown) => unknown;
  /** The schema of the saved value. Absent: the schema of the flag. */
  readonly saved?: z.ZodType;
  /**
   * The key of the flag's own value in the configuration of a run. Absent: `key`, with the model's value.
   */
  readonly configurationKey?: string;
  /** True where Megatron-LM requires the flag. */
  readonly isRequired?: true;
  /** True where it is a count that shapes of weights have. */
  readonly isSize?: true;
  /**
   * Returns the value if neither a flag nor a saved model gives one. Absent: the default of the flag, which
   * must then match the computation of models without the property.
   */
  readonly otherwise?: (known: KnownValues) => unknown;
  /** True if the configuration of a run leaves the field out, so that the kind of model decides. */
  readonly isLeftOpen?: true;
  /**
   * True where models may lack it: the configuration of a run and of a model then has no value by its key,
   * and the flag no default.
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
  /** A value of the flag that a run may replace in a model that it loads from Hugging Face. */
  readonly replaceable?: unknown;
  /** True where a run may replace all values. */
  readonly isReplaceable?: true;
  /**
   * Values that a run may have instead in a GPT with rotary positions that it loads from Hugging Face, to
   * read longer sequences than the model was pretrained with: any value, or one of these.
   */
  readonly rotaryAlternatives?: 'all' | readonly unknown[];
}

/** Returns the value of a flag in the configuration of a model. */
export function modelValue({ isNegated, asModel }: ArchitectureField, value: unknown): unknown {
  if (value === undefined) return undefined;
  return asModel === undefined ? (isNegated ? !value : value) : asModel(value);
}

/** Returns the flag's value of that in the configuration of a model. */
export function flagValue({ isNegated, asFlag }: ArchitectureField, value: unknown): unknown {
  if (value === undefined) return undefined;
  return asFlag === undefined ? (isNegated ? !value : value) : asFlag(value);
}

/** Returns the flag's value of a model that does not state it; undefined where nothing gives one. */
export function unstatedValue(field: ArchitectureField, known: KnownValues): unknown {
  return field.otherwise === undefined ? flagFacts.get(field.flag)?.default : field.otherwise(known);
}
