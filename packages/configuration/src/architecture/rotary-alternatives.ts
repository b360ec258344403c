import type { PositionVariants, TransformerConfiguration } from '@mtl/models';
import { isDefaultSource } from '../flags/is-default-source.js';
import type { LoadedFlags } from '../flags/loaded-flags.js';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import { architectureFlags, type KindOfModel } from './architecture-flags.js';
import { fieldsOf } from './fields-of.js';

/** The values that positions of a loaded model may have instead, by flag: none where they are not rotary. */
export function rotaryAlternatives({ kind, model }: KindOfModel): NonNullable<LoadedFlags['alternatives']> {
  const { positionEmbeddingType } = model as PositionVariants;
  const isRotary = positionEmbeddingType === 'rope' || positionEmbeddingType === 'yarn';
  if (kind !== 'gpt' || !isRotary) return {};
  return Object.fromEntries(
    fieldsOf(kind).flatMap(([name, { rotaryAlternatives: values }]) =>
      values === undefined ? [] : [[name, values] as const],
    ),
  );
}

/** Properties that say the same as others in another way, which they take the place of. */
const saidOtherwise: Readonly<Record<string, readonly string[]>> = {
  mscale: ['yarnAttentionFactor'],
  mscaleAllDim: ['yarnAttentionFactor'],
  yarnAttentionFactor: ['mscale', 'mscaleAllDim'],
};

/**
 * A loaded `model` with the rotary positions that a run asks for, whose flags describe the model `asked`:
 * what the run states of them, and not the defaults of its flags.
 */
export function withAskedPositions<Model extends TransformerConfiguration>(
  { kind, sources }: Pick<PretrainingConfiguration, 'kind' | 'sources'>,
  { model, asked }: { readonly model: Model; readonly asked: TransformerConfiguration },
): Model {
  const alternatives = rotaryAlternatives({ kind, model });
  const values = architectureFlags({ kind, model: asked });
  const keys = fieldsOf(kind).flatMap(([name, { key }]) => {
    const may = alternatives[name];
    const isAllowed = may === 'all' || (may ?? []).includes(values[name]);
    return isAllowed && !isDefaultSource(sources.get(name)) ? [key] : [];
  });
  const replaced = [...keys, ...keys.flatMap((key) => saidOtherwise[key] ?? [])];
  const kept = Object.entries(model).filter(([key]) => !replaced.includes(key));
  const stated = Object.entries(asked).filter(([key]) => keys.includes(key));
  return Object.fromEntries([...kept, ...stated]) as unknown as Model;
}
