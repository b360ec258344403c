import { ConfigurationError, nearestName } from '@mtl/errors';
import type { ModelKind } from '../model-kind.js';
import { presetsOf } from '../presets/presets-of.js';
import type { ConfigFile } from './config-file.js';
import { defaultFlags, type FlagName, type Flags } from './flag-schema.js';

/** Values of all flags, each from the strongest source that gives one. */
export interface ResolvedFlags {
  readonly values: Flags;
  /** Where each value comes from: `command line`, a file's name, `preset NAME` or `default`. */
  readonly sources: ReadonlyMap<FlagName, string>;
  /** The preset in force, or `none`. */
  readonly preset: string;
  /** The model that they describe. */
  readonly model: ModelKind;
}

export interface ResolveFlagsOptions {
  /** Values of the command line, the strongest source. */
  readonly given: ReadonlyMap<FlagName, unknown>;
  readonly file?: ConfigFile;
  /** The smallest one of the model unless given; `none` leaves only the defaults of the flags. */
  readonly preset?: string;
  /** Default: gpt. */
  readonly model?: ModelKind;
}

/**
 * Flags that say the same thing in different ways: one of a stronger source puts the others of weaker sources
 * out of force. (Within one source they contradict each other, which `validateConfiguration` reports.)
 */
const displaced: Partial<Record<FlagName, readonly FlagName[]>> = {
  'train-iters': ['train-samples', 'lr-decay-samples', 'lr-warmup-samples', 'lr-wsd-decay-samples'],
  'train-samples': ['train-iters', 'lr-decay-iters', 'lr-warmup-iters', 'lr-wsd-decay-iters'],
  'lr-warmup-iters': ['lr-warmup-fraction', 'lr-warmup-samples'],
  'lr-warmup-samples': ['lr-warmup-fraction', 'lr-warmup-iters'],
  'lr-warmup-fraction': ['lr-warmup-iters', 'lr-warmup-samples'],
  bf16: ['fp16'],
  fp16: ['bf16'],
  'load-hf': ['load'],
  load: ['load-hf'],
};

/**
 * Lays the sources over each other: defaults, preset, file, command line.
 *
 * @throws ConfigurationError `MTL_PRESET` for an unknown preset, with the nearest name.
 */
export function resolveFlags(options: ResolveFlagsOptions): ResolvedFlags {
  const { model = 'gpt' } = options;
  const preset = options.preset ?? presetsOf(model).whenNoneIsNamed;
  const layers: Array<readonly [source: string, values: Iterable<readonly [string, unknown]>]> = [
    ['default', Object.entries(defaultFlags)],
    [`preset ${preset}`, Object.entries(presetFlags(preset, model))],
    [options.file?.path ?? 'file', options.file?.values ?? []],
    ['command line', options.given],
  ];
  const values = new Map<FlagName, unknown>();
  const sources = new Map<FlagName, string>();
  const putBack = (name: FlagName): void => {
    if (defaultFlags[name] === undefined) {
      values.delete(name);
      sources.delete(name);
    } else {
      values.set(name, defaultFlags[name]);
      sources.set(name, 'default');
    }
  };
  for (const [source, layer] of layers) {
    const entries = [...layer] as ReadonlyArray<readonly [FlagName, unknown]>;
    for (const [name, value] of entries) {
      // A switch that is turned off says nothing about its rivals.
      if (value === false) continue;
      for (const rival of displaced[name] ?? []) putBack(rival);
    }
    for (const [name, value] of entries) {
      values.set(name, value);
      sources.set(name, source);
    }
  }
  return { values: Object.freeze(Object.fromEntries(values)) as Flags, sources, preset, model };
}

function presetFlags(name: string, model: ModelKind): Flags {
  if (name === 'none') return {};
  const { presets } = presetsOf(model);
  if (Object.hasOwn(presets, name)) return presets[name]!;
  const names = Object.keys(presets);
  const near = nearestName(name, names);
  const other = model === 'gpt' ? 'bert' : 'gpt';
  const isOfOther = Object.hasOwn(presetsOf(other).presets, name);
  const what = isOfOther ? `${name} is a preset of ${other.toUpperCase()}` : `there is no preset ${name}`;
  throw new ConfigurationError('MTL_PRESET', what, {
    expected: `${names.join(', ')} or none`,
    ...(near === undefined ? {} : { remedy: `pass --preset ${near}` }),
    details: { preset: name, near },
  });
}
