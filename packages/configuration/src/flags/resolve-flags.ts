import type { TokenizerOptions } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import type { ModelKind } from '../model-kind.js';
import { presetFlags } from '../presets/preset-flags.js';
import { presetsOf } from '../presets/presets-of.js';
import type { ConfigFile } from './config-file.js';
import { defaultFlags, type FlagName, type Flags } from './flag-schema.js';
import { flagsOfOwnModels, tokenizerFlagNames } from './flags-of-own-models.js';
import type { LoadedFlags } from './loaded-flags.js';

/** Values of all flags, each from the strongest source that gives one. */
export interface ResolvedFlags {
  readonly values: Flags;
  /**
   * Where each value comes from: `command line` or `options`, a file's name, `checkpoint PATH`,
   * `Hugging Face directory PATH`, `preset NAME` or `default` (Megatron-LM's, where it has the flag).
   */
  readonly sources: ReadonlyMap<FlagName, string>;
  /** Flags of the command line and of --config. */
  readonly given: ReadonlySet<FlagName>;
  /** The preset in force, or `none`. */
  readonly preset: string;
  /** The model that they describe. */
  readonly model: ModelKind;
  /** What --load or --load-hf names, where it was read. */
  readonly loaded?: Pick<LoadedFlags, 'source' | 'vocabularySize' | 'start'>;
  /** The tokenizer of the loaded model, where it is the one in force. */
  readonly loadedTokenizer?: TokenizerOptions;
}

/** Who gave the values of the strongest source. */
export type GivenBy = 'command line' | 'options';

export interface ResolveFlagsOptions {
  /** Values of the command line or of a program's options, the strongest source. */
  readonly given: ReadonlyMap<FlagName, unknown>;
  /** Which of the two. Default: the command line. */
  readonly givenBy?: GivenBy;
  /** --config */
  readonly file?: ConfigFile;
  /** What --load or --load-hf names. */
  readonly loaded?: LoadedFlags;
  /**
   * `none` leaves only the defaults of the flags. Default: the smallest one of the model for a command line
   * without --config and without a model, data or checkpoint of its own, otherwise `none`.
   */
  readonly preset?: string;
  /** Default: gpt. */
  readonly model?: ModelKind;
  /** Values for required flags that the program does not use: the weakest source. */
  readonly unused?: Flags;
}

/**
 * Flags that set the same thing in different ways: one of a stronger source puts the others of weaker sources
 * out of force. (Within one source they contradict each other, which `validateConfiguration` reports.)
 */
const displaced: Partial<Record<FlagName, readonly FlagName[]>> = {
  epochs: ['train-iters', 'train-samples', 'lr-decay-samples', 'lr-warmup-samples', 'lr-wsd-decay-samples'],
  'train-iters': ['epochs', 'train-samples', 'lr-decay-samples', 'lr-warmup-samples', 'lr-wsd-decay-samples'],
  'train-samples': ['epochs', 'train-iters', 'lr-decay-iters', 'lr-warmup-iters', 'lr-wsd-decay-iters'],
  'lr-warmup-iters': ['lr-warmup-fraction', 'lr-warmup-samples'],
  'lr-warmup-samples': ['lr-warmup-fraction', 'lr-warmup-iters'],
  'lr-warmup-fraction': ['lr-warmup-iters', 'lr-warmup-samples'],
  bf16: ['fp16'],
  fp16: ['bf16'],
  'data-path': ['mock-data'],
  'train-data': ['mock-data'],
  'mock-data': ['data-path', 'train-data'],
  'load-hf': ['load'],
  load: ['load-hf'],
  // the vocabulary of a preset's NullTokenizer
  'tokenizer-type': ['vocab-size'],
  'validation-data': ['validation-fraction'],
  'validation-fraction': ['validation-data'],
  mscale: ['yarn-attention-factor'],
  'mscale-all-dim': ['yarn-attention-factor'],
  'yarn-attention-factor': ['mscale', 'mscale-all-dim'],
};

type Entries = ReadonlyArray<readonly [FlagName, unknown]>;

/**
 * Lays the sources over each other: defaults, preset, loaded checkpoint or Hugging Face directory, file,
 * command line.
 *
 * @throws ConfigurationError `MTL_PRESET` for an unknown preset, with the nearest name; `MTL_FLAG_CONFLICT`
 *   for flags that contradict the loaded model, and for dist_muon without the distributed optimizer.
 */
export function resolveFlags(options: ResolveFlagsOptions): ResolvedFlags {
  const { model = 'gpt', file, given, givenBy = 'command line', unused = {} } = options;
  const preset = options.preset ?? presetWithoutName(options);
  const asked = new Map([...(file?.values ?? []), ...given]);
  const { loaded } = options;
  if (loaded !== undefined) refuseContradictions(asked, loaded);
  const hasOwnTokenizer = tokenizerFlagNames.some((name) => asked.has(name));
  const layers: ReadonlyArray<readonly [source: string, entries: Entries]> = [
    ['default', entriesOf({ ...unused, ...defaultFlags })],
    [`preset ${preset}`, entriesOf(presetFlags(preset, model))],
    [loaded?.source ?? '', loaded === undefined ? [] : loadedEntries(loaded, { hasOwnTokenizer })],
    [file?.path ?? '', [...(file?.values ?? [])]],
    [givenBy, [...given]],
  ];
  const { values, sources } = layOver(layers);
  replaceDistMuon({ values, sources, asked });
  keepBelowPeak({ values, sources, preset });
  return {
    values: Object.freeze(Object.fromEntries(values)) as Flags,
    sources,
    preset,
    model,
    given: new Set(asked.keys()),
    ...(loaded === undefined ? {} : { loaded }),
    ...(loaded?.tokenizer === undefined || hasOwnTokenizer ? {} : { loadedTokenizer: loaded.tokenizer }),
  };
}

/** The default preset is for those who ask for nothing of their own. */
function presetWithoutName({ given, file, model = 'gpt' }: ResolveFlagsOptions): string {
  const isOwn = file !== undefined || [...given.keys()].some((name) => flagsOfOwnModels.has(name));
  return isOwn ? 'none' : presetsOf(model).whenNothingIsAsked;
}

const entriesOf = (flags: Flags): Entries => Object.entries(flags) as unknown as Entries;

/** Flags of a tokenizer belong together: one of the user's replaces all of the loaded model's. */
function loadedEntries(
  { values }: LoadedFlags,
  { hasOwnTokenizer }: { readonly hasOwnTokenizer: boolean },
): Entries {
  const ofTokenizer: readonly string[] = tokenizerFlagNames;
  return entriesOf(values).filter(([name]) => !(hasOwnTokenizer && ofTokenizer.includes(name)));
}

function layOver(layers: ReadonlyArray<readonly [source: string, entries: Entries]>): {
  readonly values: Map<FlagName, unknown>;
  readonly sources: Map<FlagName, string>;
} {
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
  for (const [source, entries] of layers) {
    for (const [name, value] of entries) {
      // A switch that is turned off leaves its rivals in force.
      if (value === false) continue;
      for (const rival of displaced[name] ?? []) putBack(rival);
    }
    for (const [name, value] of entries) {
      values.set(name, value);
      sources.set(name, source);
    }
  }
  return { values, sources };
}

/** Megatron-LM's old name of Muon with the distributed optimizer. */
function replaceDistMuon(options: {
  readonly values: Map<FlagName, unknown>;
  readonly sources: Map<FlagName, string>;
  readonly asked: ReadonlyMap<FlagName, unknown>;
}): void {
  const { values, sources, asked } = options;
  if (values.get('optimizer') !== 'dist_muon') return;
  if (asked.get('use-distributed-optimizer') === false) {
    throw new ConfigurationError(
      'MTL_FLAG_CONFLICT',
      '--optimizer dist_muon and --no-use-distributed-optimizer contradict each other',
      {
        expected: '--optimizer dist_muon, which means --optimizer muon --use-distributed-optimizer',
        remedy: 'use --optimizer muon for Muon without the distributed optimizer',
        details: { flags: ['optimizer', 'use-distributed-optimizer'] },
      },
    );
  }
  values.set('optimizer', 'muon');
  values.set('use-distributed-optimizer', true);
  sources.set('use-distributed-optimizer', `${sources.get('optimizer')}: --optimizer dist_muon`);
}

/** A lowest learning rate that only the preset asks for gives way to a peak below it. */
function keepBelowPeak(options: {
  readonly values: Map<FlagName, unknown>;
  readonly sources: Map<FlagName, string>;
  readonly preset: string;
}): void {
  const { values, sources, preset } = options;
  const ofPreset = `preset ${preset}`;
  const [peak, lowest] = [values.get('lr'), values.get('min-lr')] as [number | undefined, number];
  if (sources.get('min-lr') !== ofPreset || peak === undefined || lowest <= peak) return;
  values.set('min-lr', defaultFlags['min-lr']);
  sources.set('min-lr', `default (${ofPreset}: ${lowest}, above --lr)`);
}

/** @throws ConfigurationError `MTL_FLAG_CONFLICT` naming all flags that contradict the loaded model */
function refuseContradictions(
  asked: ReadonlyMap<FlagName, unknown>,
  { source, values, fixed, alternatives = {} }: LoadedFlags,
): void {
  const mayBe = (name: FlagName, value: unknown): boolean =>
    value === values[name] || alternatives[name] === 'all' || (alternatives[name] ?? []).includes(value);
  const differing = fixed.filter((name) => asked.has(name) && !mayBe(name, asked.get(name)));
  if (differing.length === 0) return;
  const written = (value: (name: FlagName) => unknown) =>
    differing
      .map((name) => (value(name) === undefined ? `no --${name}` : `--${name} ${value(name)}`))
      .join(' ');
  const names = differing.map((name) => `--${name}`).join(' and ');
  throw new ConfigurationError(
    'MTL_FLAG_CONFLICT',
    `${written((name) => asked.get(name))} contradicts the ${source}`,
    {
      expected: `${written((name) => values[name])}, which it has`,
      remedy: `leave ${names} out: the directory gives ${differing.length === 1 ? 'it' : 'them'}`,
      details: { flags: differing },
    },
  );
}
