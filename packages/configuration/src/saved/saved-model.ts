import type { BertModelConfiguration, GptModelConfiguration } from '@mtl/models';
import { z } from 'zod';
import { fieldsOf } from '../architecture/fields-of.js';
import type { ModelKind } from '../model-kind.js';

/** The configuration of a model by its kind. */
export interface ModelOfKind {
  readonly gpt: GptModelConfiguration;
  readonly bert: BertModelConfiguration;
}

/** Where checkpoints save the configuration of their model, by its kind. */
export const savedModelKeys = { gpt: 'gptModel', bert: 'bertModel' } as const satisfies Record<
  ModelKind,
  string
>;

/** The keys of the sizes of a model that checkpoints save; older ones lack what did not exist yet. */
export function savedSizesOf(kind: ModelKind): { readonly required: string[]; readonly others: string[] } {
  const sizes = fieldsOf(kind).filter(([, { isSize }]) => isSize);
  const keysOf = (isRequired: boolean): string[] =>
    sizes.filter(([, field]) => (field.isRequired ?? false) === isRequired).map(([, { key }]) => key);
  return { required: [...keysOf(true), 'vocabularySize'], others: keysOf(false) };
}

/** What a checkpoint must save of a model of a kind; older ones lack what did not exist yet. */
export function savedModelSchema(kind: ModelKind): z.ZodType {
  const values = fieldsOf(kind).map(([, field]) => {
    const { key, flag, isNegated, isSize, isRequired, withoutFlag, saved } = field;
    const ofFlag = isNegated
      ? z.boolean()
      : withoutFlag === undefined
        ? flag
        : z.union([flag, z.literal(withoutFlag as number)]);
    const schema = saved ?? (isSize ? z.int() : ofFlag);
    return [key, isRequired ? schema : schema.optional()] as const;
  });
  return z.looseObject({ ...Object.fromEntries(values), vocabularySize: z.int() });
}
