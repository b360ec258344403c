import type { TransformerConfiguration } from '@mtl/models';
import type { Flags } from '../flags/flag-schema.js';
import type { ModelKind } from '../model-kind.js';
import { architectureFlagNames, fieldsOf } from './fields-of.js';
import { flagValue, unstatedValue } from './model-values.js';

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
    const value = flagValue(field, stated[field.key]) ?? unstatedValue(field, stated);
    const isUsed = !(field.isUnused?.(stated) ?? false);
    const hasFlag = isUsed && (field.withoutFlag === undefined || value !== field.withoutFlag);
    return value !== undefined && hasFlag ? [[name, value] as const] : [];
  });
  return Object.fromEntries(values) as Flags;
}

/** The flags of the architecture in which two models of a kind differ, as command lines have them. */
export interface DifferingFlags {
  readonly one: string;
  readonly other: string;
  /** What makes the other model the one: `pass --num-layers 2, leave out --window-size`. */
  readonly toGetOne: string;
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
  if (names.length === 0) return undefined;
  const text = (of: Flags, name: keyof Flags): string =>
    of[name] === undefined ? `no --${name}` : `--${name} ${of[name]}`;
  const textOf = (of: Flags): string => names.map((name) => text(of, name)).join(' ');
  const [passed, leftOut] = [true, false].map((isSet) =>
    names.filter((name) => (one[name] !== undefined) === isSet),
  ) as [typeof names, typeof names];
  const actions = [
    ...(passed.length > 0 ? [`pass ${passed.map((name) => text(one, name)).join(' ')}`] : []),
    ...(leftOut.length > 0 ? [`leave out ${leftOut.map((name) => `--${name}`).join(' ')}`] : []),
  ];
  return { one: textOf(one), other: textOf(other), toGetOne: actions.join(', ') };
}
