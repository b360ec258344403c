import type { TransformerConfiguration } from '@mtl/models';
import type { Flags } from '../flags/flag-schema.js';
import type { ModelKind } from '../model-kind.js';
import { architectureFlagNames, fieldsOf } from './fields-of.js';
import { negatedIf, unstatedValue } from './model-values.js';

/** A GptModelConfiguration or a BertModelConfiguration, as `kind` tells. */
export interface KindOfModel {
  readonly kind: ModelKind;
  readonly model: TransformerConfiguration;
}

/** Flags that decide which weights a model has and what it computes with them, in the order of help. */
export const weightFlagNames = architectureFlagNames(({ decides }) => decides === 'weights');

/**
 * The flags that describe a model: all of its architecture but the vocabulary, which is the tokenizer's. A
 * property that the model does not state, as in a checkpoint of before it existed, has the value that such
 * models have.
 */
export function architectureFlags({ kind, model }: KindOfModel): Flags {
  const stated = { ...model, kind } as Readonly<Record<string, unknown>>;
  const values = fieldsOf(kind).flatMap(([name, field]) => {
    const value = negatedIf(field, stated[field.key]) ?? unstatedValue(field, stated);
    const hasFlag = field.withoutFlag === undefined || value !== field.withoutFlag;
    return value !== undefined && hasFlag ? [[name, value] as const] : [];
  });
  return Object.fromEntries(values) as Flags;
}

/** The flags of the architecture in which two models of a kind differ, as command lines have them. */
export interface DifferingFlags {
  readonly one: string;
  readonly other: string;
}

/** Compares what decides the weights of two models of a kind; undefined where they are the same. */
export function differingFlags(
  kind: ModelKind,
  models: { readonly one: TransformerConfiguration; readonly other: TransformerConfiguration },
): DifferingFlags | undefined {
  const [one, other] = [models.one, models.other].map((model) => architectureFlags({ kind, model })) as [
    Flags,
    Flags,
  ];
  const names = weightFlagNames.filter((name) => one[name] !== other[name]);
  const listed = (of: Flags): string => names.map((name) => `--${name} ${of[name]}`).join(' ');
  return names.length === 0 ? undefined : { one: listed(one), other: listed(other) };
}
