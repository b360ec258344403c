import { ConfigurationError, rewordError } from '@mtl/errors';
import type { BatchPosition } from '@mtl/optimizer';
import type { TokenizerOptions } from '@mtl/tokenizers';
import type { ModelKind } from '../architecture/architecture-field.js';
import { isDefaultSource, type ResolvedFlags } from '../command-line/resolve-flags.js';
import { flagFacts } from '../flags/flag-kinds.js';
import type { FlagFragment, FlagProblem, FlagValues } from '../flags/flag-values.js';
import { isElsewhere } from '../flags/flags-elsewhere.js';
import { optionName } from '../flags/option-names.js';
import { defaultFlags, type FlagName, type Flags, findFlagFacts } from '../schema/flag-schema.js';

/** Two flags that cannot be combined. */
export interface FlagConflict {
  readonly flags: readonly [FlagName, FlagName];
  readonly why: string;
  readonly remedy?: string;
}

/** Reads resolved flags for checks, and throws errors with uniform wording. */
export class FlagReader {
  readonly #resolved: ResolvedFlags;

  constructor(resolved: ResolvedFlags) {
    this.#resolved = resolved;
  }

  /** The kind of model that the flags describe. */
  get model(): ModelKind {
    return this.#resolved.model;
  }

  /** Returns the value of a flag; undefined if the flag has no value. */
  get<Name extends FlagName>(name: Name): Flags[Name] {
    return this.#resolved.values[name];
  }

  /**
   * Returns the value of a flag that has a default, or that must be given.
   *
   * @throws ConfigurationError `MTL_FLAG_REQUIRED` for a flag without a value
   */
  required<Name extends FlagName>(name: Name): NonNullable<Flags[Name]> {
    const value = this.#resolved.values[name];
    if (value !== undefined) return value as NonNullable<Flags[Name]>;
    throw new ConfigurationError('MTL_FLAG_REQUIRED', `--${name} is missing`, {
      remedy: `pass --${name}, or a --preset that sets it`,
      details: { flag: name },
    });
  }

  /**
   * Returns the values of a topic's flags that are properties of the topic in a run's configuration, keyed by
   * option name. Flags without a value are left out.
   */
  values<Fragment extends FlagFragment>(fragment: Fragment): FlagValues<Fragment> {
    const values: Readonly<Record<string, unknown>> = this.#resolved.values;
    const names = Object.keys(fragment).filter((name) => !isElsewhere(name) && values[name] !== undefined);
    return Object.fromEntries(names.map((name) => [optionName(name), values[name]])) as FlagValues<Fragment>;
  }

  /** Returns true if the command line or --config gives the flag a value other than its default. */
  isGiven(name: FlagName): boolean {
    return this.#resolved.given.has(name) && this.#resolved.values[name] !== defaultFlags[name];
  }

  /** Returns true if the command line or --config contains the flag, with any value. */
  isAsked(name: FlagName): boolean {
    return this.#resolved.given.has(name);
  }

  /** Returns true if a flag's value comes from a default or a preset. */
  isDefault(name: FlagName): boolean {
    return isDefaultSource(this.#resolved.sources.get(name));
  }

  /** Returns true if a flag's value comes from the loaded checkpoint or directory. */
  isLoaded(name: FlagName): boolean {
    const { sources, loaded } = this.#resolved;
    return loaded !== undefined && sources.get(name) === loaded.source;
  }

  /** The vocabulary size of the loaded model; undefined if no model is loaded. */
  get vocabularySize(): number | undefined {
    return this.#resolved.loaded?.vocabularySize;
  }

  /** The position from which a resumed run continues; undefined for a new run. */
  get start(): BatchPosition | undefined {
    return this.#resolved.loaded?.start;
  }

  /** The tokenizer of the loaded model, unless a flag selects a different tokenizer. */
  get loadedTokenizer(): TokenizerOptions | undefined {
    return this.#resolved.loadedTokenizer;
  }

  /**
   * Returns a flag with its value as the user wrote it, such as `--lr 0.1`. If the user did not write the
   * value, its source is appended.
   */
  written(name: FlagName): string {
    const value = this.#resolved.values[name];
    const shown = value === true ? '' : ` ${Array.isArray(value) ? value.join(' ') : String(value)}`;
    const source = this.#resolved.sources.get(name);
    const isGiven = source === 'command line' || source === 'options';
    const from = source === undefined || isGiven ? '' : ` (${source})`;
    return `--${name}${shown}${from}`;
  }

  /** Returns a notice for each given flag of `names`. `reason` describes when these flags have no effect. */
  noticesOfUnused(names: readonly FlagName[], reason: string): readonly string[] {
    return names.filter((name) => this.isGiven(name)).map((name) => `--${name} has no effect ${reason}`);
  }

  /** Throws the error about a flag's value. `problem` follows the flag and its value in the message. */
  refuse(name: FlagName, problem: string, { code, ...facts }: FlagProblem): never {
    throw new ConfigurationError(code, `${this.written(name)} ${problem}`, facts);
  }

  /** Throws the error about two flags that contradict each other. */
  conflict({ flags: [first, second], why, remedy }: FlagConflict): never {
    throw new ConfigurationError(
      'MTL_FLAG_CONFLICT',
      `${this.written(first)} and ${this.written(second)}: ${why}`,
      {
        remedy: remedy ?? `leave out one`,
        details: { flags: [first, second] },
      },
    );
  }

  /**
   * Checks what the flags of a topic need and exclude, as their schemas state.
   *
   * @throws ConfigurationError `MTL_FLAG_NEEDS`, `MTL_FLAG_CONFLICT`
   */
  checkRelations(fragment: FlagFragment): void {
    const isSet = (name: string): boolean => {
      const value: unknown = this.get(name as FlagName);
      return value !== undefined && value !== false && value !== defaultFlags[name as FlagName];
    };
    for (const [key, schema] of Object.entries(fragment)) {
      const name = key as FlagName;
      const { needs, excludes = {} } = flagFacts.get(schema)!;
      if (needs !== undefined && this.isGiven(name) && isSet(name) && !isSet(needs[0])) {
        const [needed, why] = needs as [FlagName, string];
        const { placeholder } = findFlagFacts(needed);
        this.needs(name, `--${needed} ${placeholder.replace(' ...', '')}`.trim(), why);
      }
      for (const [other, why] of Object.entries(excludes)) {
        if (isSet(name) && isSet(other)) this.conflict({ flags: [name, other as FlagName], why });
      }
    }
  }

  /** Throws the error of `needs` for the first given flag of `names`. */
  needsFor(names: readonly FlagName[], other: string, why: string): void {
    for (const name of names) if (this.isGiven(name)) this.needs(name, other, why);
  }

  /** Throws the error about a flag that requires `other`. */
  needs(flag: FlagName, other: string, why: string): never {
    throw new ConfigurationError('MTL_FLAG_NEEDS', `${this.written(flag)} ${why}`, {
      expected: other,
      remedy: `add ${other} or leave --${flag} out`,
      details: { flag },
    });
  }
}

/** The flags that set the options of @mtl/optimizer's classes, keyed by option name. */
const flagOfOption: Readonly<Record<string, string>> = {
  maxLearningRate: '--lr',
  minLearningRate: '--min-lr',
  initialLearningRate: '--lr-warmup-init',
  decaySteps: '--lr-decay-iters (or --lr-decay-samples)',
  warmupSteps: '--lr-warmup-iters, --lr-warmup-samples or --lr-warmup-fraction',
  wsdDecaySteps: '--lr-wsd-decay-iters (or --lr-wsd-decay-samples)',
  decayStyle: '--lr-decay-style',
  wsdDecayStyle: '--lr-wsd-decay-style',
  globalBatchSize: '--global-batch-size',
  microBatchSize: '--micro-batch-size',
  'rampup.start': 'the start of --rampup-batch-size',
  'rampup.increment': 'the increment of --rampup-batch-size',
  'rampup.samples': 'the samples of --rampup-batch-size',
  rampup: '--rampup-batch-size',
  scale: '--loss-scale',
  initialScale: '--initial-loss-scale',
  minScale: '--min-loss-scale',
  growthInterval: '--loss-scale-window',
  hysteresis: '--hysteresis',
};

/**
 * The names of options, sorted by length. The longest comes first, so that `rampup.start` is matched before
 * `rampup`.
 */
const names = Object.keys(flagOfOption).sort((a, b) => b.length - a.length);
const option = new RegExp(`\\b(?:${names.map((name) => name.replace('.', '\\.')).join('|')})\\b`, 'g');

const inFlags = (text: string): string => text.replace(option, (name) => flagOfOption[name]!);

/**
 * Runs `body`, and replaces the names of @mtl/optimizer's options by names of flags in its errors.
 *
 * @throws the ConfigurationErrors of `body`, with unchanged codes
 */
export function inWordsOfFlags<Result>(body: () => Result): Result {
  try {
    return body();
  } catch (error) {
    throw error instanceof ConfigurationError ? rewordError(error, inFlags) : error;
  }
}
