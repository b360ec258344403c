import { existsSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, relative, resolve, sep } from 'node:path';
import { ConfigurationError } from '@mtl/errors';
import {
  checkOptions,
  choiceOption,
  type OptionChecks,
  objectOption,
  optionThat,
  required,
  textOption,
} from '@mtl/errors/options';
import type { BatchPosition } from '@mtl/optimizer';
import type { TokenizerOptions } from '@mtl/tokenizers';
import type { ModelKind } from '../architecture/architecture-field.js';
import { flagValuesOption, modelKindOption, presetOption } from '../options/option-checks.js';
import { findPresets, presetFlags } from '../presets/presets.js';
import {
  defaultFlags,
  type FlagName,
  type Flags,
  flagsOfOwnModels,
  tokenizerFlagNames,
  writeFlags,
} from '../schema/flag-schema.js';
import { isScheduleModule } from '../strategies/pipeline-parallelism.js';
import { displacedByStrategies, impliedSwitches } from '../strategies/strategies.js';
import type { ConfigFile } from './config-file.js';

/** The run's flags that --load or --load-hf determine, as plain data, so that ranks can broadcast them. */
export interface LoadedFlags {
  /**
   * The source of the values, to be printed: `checkpoint runs/a/iter_0000010` or
   * `Hugging Face directory gpt2`.
   */
  readonly source: string;
  readonly values: Flags;
  /** The flags for which the user must not give a value that differs from the loaded value. */
  readonly fixed: readonly FlagName[];
  /** Values that a run may give the fixed flags in place of the loaded values. Default: none. */
  readonly alternatives?: Readonly<Partial<Record<FlagName, 'all' | readonly unknown[]>>>;
  /** The options of the tokenizer in `values`, with details that flags cannot express. */
  readonly tokenizer?: TokenizerOptions;
  /** The number of tokens in the model's vocabulary. */
  readonly vocabularySize: number;
  /** The position from which training resumes; absent for a new run. */
  readonly start?: BatchPosition;
}

/** The values of all flags. Each value comes from the source with the highest precedence. */
export interface ResolvedFlags {
  readonly values: Flags;
  /**
   * The source of each value: `command line` or `options`, the name of a file, `checkpoint PATH`,
   * `Hugging Face directory PATH`, `preset NAME` or `default` (Megatron-LM's default, if Megatron-LM has the
   * flag).
   */
  readonly sources: ReadonlyMap<FlagName, string>;
  /** The flags that the command line (or the options) and --config give. */
  readonly given: ReadonlySet<FlagName>;
  /** The preset in use, or `none`. */
  readonly preset: string;
  /** The kind of model that the flags describe. */
  readonly model: ModelKind;
  /** Facts about the checkpoint or directory of --load or --load-hf, if one was read. */
  readonly loaded?: Pick<LoadedFlags, 'source' | 'vocabularySize' | 'start'>;
  /** The tokenizer of the loaded model, if the run uses it. */
  readonly loadedTokenizer?: TokenizerOptions;
}

/** The name of the source with the highest precedence. */
export type GivenBy = 'command line' | 'options';

export interface ResolveFlagsOptions {
  /** Values of the command line, or of a program's options, which take precedence. */
  readonly given: ReadonlyMap<FlagName, unknown>;
  /** The origin of `given`: a command line or options. Default: the command line. */
  readonly givenBy?: GivenBy;
  /** The contents of the file of --config. */
  readonly file?: ConfigFile;
  /** The flags from --load or --load-hf. */
  readonly loaded?: LoadedFlags;
  /**
   * The name of a preset, or `none`. Default: the smallest preset of the model if `given` has no flags for a
   * model, data or checkpoint and there is no --config; otherwise `none`.
   */
  readonly preset?: string;
  /** The kind of model that the program trains. Default: gpt. */
  readonly model?: ModelKind;
  /** Values of required flags that the program does not use. Any other source overrides them. */
  readonly unused?: Flags;
}

const checks: OptionChecks<ResolveFlagsOptions> = {
  given: required(optionThat('a map of flags', (value) => value instanceof Map)),
  givenBy: choiceOption(['command line', 'options']),
  file: objectOption('a file of settings that was read', { path: required(textOption) }),
  loaded: objectOption('the flags of a loaded model', {
    source: required(textOption),
    values: required(objectOption('values of flags')),
  }),
  preset: presetOption,
  model: modelKindOption,
  unused: flagValuesOption,
};

/**
 * Conflicting flags: for each flag, the flags that set the same property differently. A flag overrides the
 * flags in its list that come from a source of lower precedence. Within one source, such flags contradict
 * each other, and `validateConfiguration` reports the contradiction.
 */
export const displacedFlags: Partial<Record<FlagName, readonly FlagName[]>> = {
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
  // a preset with NullTokenizer sets --vocab-size, which a different tokenizer type must remove
  'tokenizer-type': ['vocab-size'],
  'validation-data': ['validation-fraction'],
  'validation-fraction': ['validation-data'],
  mscale: ['yarn-attention-factor'],
  'mscale-all-dim': ['yarn-attention-factor'],
  'yarn-attention-factor': ['mscale', 'mscale-all-dim'],
  ...(displacedByStrategies as Partial<Record<FlagName, readonly FlagName[]>>),
};

type Entries = ReadonlyArray<readonly [FlagName, unknown]>;

/**
 * Resolves the flags from all sources. The order of increasing precedence is: defaults, preset, loaded
 * checkpoint or Hugging Face directory, file, command line.
 *
 * @throws ConfigurationError `MTL_OPTION` for an option of the wrong type; `MTL_PRESET`, which contains the
 *   nearest name, for an unknown preset; `MTL_FLAG_CONFLICT` for flags that contradict the loaded model, and
 *   for dist_muon without the distributed optimizer.
 */
export function resolveFlags(options: ResolveFlagsOptions): ResolvedFlags {
  checkOptions(options, { of: 'resolveFlags', checks });
  const { model = 'gpt', file, given, givenBy = 'command line', unused = {} } = options;
  const preset = options.preset ?? presetWithoutName(options);
  const asked = new Map([...(file?.values ?? []), ...given]);
  const { loaded } = options;
  if (loaded !== undefined) refuseContradictions(asked, loaded);
  const hasOwnTokenizer = tokenizerFlagNames.some((name) => asked.has(name));
  const layers: ReadonlyArray<readonly [source: string, entries: Entries]> = [
    ['default', listEntries({ ...unused, ...defaultFlags })],
    [`preset ${preset}`, listEntries(presetFlags(preset, model))],
    [loaded?.source ?? '', loaded === undefined ? [] : loadedEntries(loaded, { hasOwnTokenizer })],
    [file?.path ?? '', [...(file?.values ?? [])]],
    [givenBy, [...given]],
  ];
  const { values, sources } = layOver(layers);
  replaceImplied({ values, sources, asked });
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

/** Returns the default preset if the user gives no model, data or checkpoint, else `none`. */
function presetWithoutName({ given, file, model = 'gpt' }: ResolveFlagsOptions): string {
  const isOwn = file !== undefined || [...given.keys()].some((name) => flagsOfOwnModels.has(name));
  return isOwn ? 'none' : findPresets(model).whenNothingIsAsked;
}

const listEntries = (flags: Flags): Entries => Object.entries(flags) as unknown as Entries;

/**
 * Returns the loaded flags. The flags of a tokenizer form a unit: if the user gives any flag of the
 * tokenizer, all loaded flags of the tokenizer are left out.
 */
function loadedEntries(
  { values }: LoadedFlags,
  { hasOwnTokenizer }: { readonly hasOwnTokenizer: boolean },
): Entries {
  const ofTokenizer: readonly string[] = tokenizerFlagNames;
  return listEntries(values).filter(([name]) => !(hasOwnTokenizer && ofTokenizer.includes(name)));
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
      // a switch that is off does not override other flags
      if (value === false) continue;
      for (const rival of displacedFlags[name] ?? []) putBack(rival);
    }
    for (const [name, value] of entries) {
      values.set(name, value);
      sources.set(name, source);
    }
  }
  return { values, sources };
}

/**
 * Replaces each value from an older version of Megatron-LM by the value and the switch that it stands for.
 */
function replaceImplied(options: {
  readonly values: Map<FlagName, unknown>;
  readonly sources: Map<FlagName, string>;
  readonly asked: ReadonlyMap<FlagName, unknown>;
}): void {
  const { values, sources, asked } = options;
  for (const { value, instead, without, ...names } of impliedSwitches) {
    const [flag, turnsOn] = [names.flag as FlagName, names.turnsOn as FlagName];
    if (values.get(flag) !== value) continue;
    const written = `--${flag} ${value}`;
    if (asked.get(turnsOn) === false) {
      throw new ConfigurationError(
        'MTL_FLAG_CONFLICT',
        `${written} and --no-${turnsOn} contradict each other`,
        {
          expected: `${written}, which means --${flag} ${instead} --${turnsOn}`,
          remedy: without,
          details: { flags: [flag, turnsOn] },
        },
      );
    }
    values.set(flag, instead);
    values.set(turnsOn, true);
    sources.set(turnsOn, `${sources.get(flag)}: ${written}`);
  }
}

/** Lowers the preset's minimum learning rate if it would exceed the user's maximum. */
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

/**
 * Rejects given flags that contradict the loaded model.
 *
 * @throws ConfigurationError `MTL_FLAG_CONFLICT`, which names all such flags
 */
function refuseContradictions(
  asked: ReadonlyMap<FlagName, unknown>,
  { source, values, fixed, alternatives = {} }: LoadedFlags,
): void {
  const mayBe = (name: FlagName, value: unknown): boolean =>
    value === values[name] || alternatives[name] === 'all' || (alternatives[name] ?? []).includes(value);
  const differing = fixed.filter((name) => asked.has(name) && !mayBe(name, asked.get(name)));
  if (differing.length === 0) return;
  const names = differing.map((name) => `--${name}`).join(' and ');
  throw new ConfigurationError(
    'MTL_FLAG_CONFLICT',
    `${writeFlags(Object.fromEntries(asked) as Flags, differing)} contradicts the ${source}`,
    {
      expected: `${writeFlags(values, differing)}, which it has`,
      remedy: `leave ${names} out: the directory gives ${differing.length === 1 ? 'it' : 'them'}`,
      details: { flags: differing },
    },
  );
}

/** Returns true if a source is a default or a preset. */
export const isDefaultSource = (source: string | undefined): boolean =>
  source === undefined || source === 'default' || source.startsWith('preset ');

/** Flags whose value may be the path of a module. The program runs the code of the module. */
const flagsOfModules = ['pipeline-schedule', 'model-blocks'] as const;

/**
 * Rejects a file of --config that names a module outside of the file's own folder. Users exchange such files
 * as if they were data, so such a file must not run code from outside its folder.
 *
 * @throws ConfigurationError `MTL_CONFIG_SCHEDULE` for a module outside the file's folder
 */
export function checkModulesOfFile(file: ConfigFile, { values, sources }: ResolvedFlags): void {
  for (const name of flagsOfModules) {
    const module = values[name];
    const isData = name === 'pipeline-schedule' && module !== undefined && !isScheduleModule(module);
    if (module === undefined || isData || sources.get(name) !== file.path) continue;
    const folder = realPath(dirname(file.path));
    const way = relative(folder, realPath(module));
    // from one drive of Windows to another, the way is an absolute path
    if (way.split(sep)[0] !== '..' && !isAbsolute(way)) continue;
    throw new ConfigurationError(
      'MTL_CONFIG_SCHEDULE',
      `${name} in ${file.path} is ${module}, a module outside the folder of that file, which would be run`,
      {
        expected: `a module in ${folder}`,
        remedy: `pass --${name} ${module} on the command line if you trust it, or move it into that folder`,
        details: { file: file.path, module },
      },
    );
  }
}

/** Returns an absolute path, with symbolic links resolved if the path exists. */
function realPath(path: string): string {
  const absolute = resolve(path);
  return existsSync(absolute) ? realpathSync(absolute) : absolute;
}
