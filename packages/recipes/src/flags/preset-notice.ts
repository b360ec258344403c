import { defaultFlags, type FlagName, flagGroups } from './flag-schema.js';
import { modelOfFlag } from './model-of-flag.js';
import type { ResolvedFlags } from './resolve-flags.js';

const sizes = ['num-layers', 'hidden-size', 'num-attention-heads'] as const;
/** Not of what is learnt, but of what is reported. */
const reported: readonly string[] = ['eval-interval', 'eval-iters', 'log-interval'];

/**
 * What a command line written for Megatron-LM would not expect: whoever describes a model of her own and
 * names no preset gets, for what she leaves out, values of the smallest preset that differ from Megatron-LM's
 * defaults. One sentence, or none.
 */
export function presetNotice({ values, sources, preset, model }: ResolvedFlags): readonly string[] {
  const source = `preset ${preset}`;
  if (sizes.some((name) => sources.get(name) === source)) return [];
  const names = flagGroups.flatMap(({ flags }) => Object.keys(flags) as FlagName[]);
  const differing = names.filter(
    (name) =>
      sources.get(name) === source &&
      defaultFlags[name] !== undefined &&
      defaultFlags[name] !== values[name] &&
      [undefined, model].includes(modelOfFlag(name)) &&
      !reported.includes(name),
  );
  if (differing.length === 0) return [];
  const shown = differing.map((name) => `--${name} ${values[name]} (default ${defaultFlags[name]})`);
  return [
    `preset ${preset}, since none is named, gave ${shown.join(', ')}; --preset none takes the defaults`,
  ];
}
