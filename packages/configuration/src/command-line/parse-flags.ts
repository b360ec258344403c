import { ConfigurationError, nearestName } from '@mtl/errors';
import { checkArgument, checkOptions, type OptionChecks, wordsOption } from '@mtl/errors/options';
import type { ModelKind } from '../architecture/architecture-field.js';
import { takesSeveral } from '../flags/flag-kinds.js';
import { withoutUndefined } from '../flags/flag-values.js';
import { flagValuesOption, modelKindOption } from '../options/option-checks.js';
import {
  type FlagName,
  type Flags,
  findFlagAlias,
  findFlagFacts,
  flagNames,
  isFlagName,
} from '../schema/flag-schema.js';
import { readFlagValue } from '../schema/flag-value.js';
import { checkModelOfFlags } from '../schema/model-of-flag.js';
import { type ConfigFile, readConfigFile } from './config-file.js';
import { findMegatronFlag, judgeMegatronFlag } from './megatron/judge-megatron-flag.js';
import {
  checkModulesOfFile,
  type LoadedFlags,
  type ResolvedFlags,
  type ResolveFlagsOptions,
  resolveFlags,
} from './resolve-flags.js';
import { type UnusableFlag, unusableFlagsError } from './unusable-flags.js';

/** Flags of training programs that are not flags of a run. */
const programFlags = ['preset', 'config', 'help', 'debug'] as const;

/** A parsed command line: the values of all flags, and requests to the program such as --help. */
export interface ParsedFlags extends ResolvedFlags {
  /**
   * True if --help was given. The program must then print `formatHelp` and exit. The rest of the command line
   * was not parsed.
   */
  readonly help: boolean;
  /** True if errors must be printed with their stack trace (--debug). */
  readonly debug: boolean;
  /** Messages for the user about given flags that have no effect. */
  readonly notices: readonly string[];
  /** The words of the command line. */
  readonly argv: readonly string[];
  /** The options of `resolveFlags` from which the values were resolved. */
  readonly request: ResolveFlagsOptions;
}

export interface ParseFlagsOptions {
  /** The kind of model that the program trains. Default: gpt. */
  readonly model?: ModelKind;
  /**
   * Values of required flags that the program does not use; for example, `mtl plan` needs no learning rate.
   */
  readonly unused?: Flags;
}

const checks: OptionChecks<ParseFlagsOptions> = { model: modelKindOption, unused: flagValuesOption };

/**
 * Parses a command line, with the file of --config and the preset of --preset. Flags override the file, the
 * file overrides the preset, and the preset overrides Megatron-LM's defaults. If --load or --load-hf is
 * given, the caller must call `withLoadedFlags` to add the loaded values, which override the preset.
 *
 * If a flag is repeated on the command line, the last value counts, with a notice. Accepted forms are `--flag
 * value`, `--flag=value`, `--switch`, `--no-switch`, several values for some flags, underscores in place of
 * dashes, and the other names in `flagAliases`.
 *
 * `model` is the kind of model that the program trains (default: gpt).
 *
 * @param argv arguments without the program's name: `process.argv.slice(2)`.
 * @throws ConfigurationError `MTL_OPTION` for an argument or an option of the wrong type; for all unknown and
 *   unsupported flags together: `MTL_FLAG_UNKNOWN`, which contains the nearest name, or
 *   `MTL_FLAG_UNSUPPORTED`; for the first other problem: `MTL_FLAG_MODEL`, `MTL_FLAG_REPEATED`,
 *   `MTL_FLAG_VALUE`, `MTL_FLAG_VALUE_MISSING`, `MTL_FLAG_ARGUMENT`, `MTL_PRESET`, and the codes of
 *   `readConfigFile` and `checkModulesOfFile`.
 */
export function parseFlags(argv: readonly string[], options: ParseFlagsOptions = {}): ParsedFlags {
  checkArgument(argv, { name: 'argv', check: wordsOption });
  checkOptions(options, { of: 'parseFlags', checks });
  const { model = 'gpt', unused = {} } = options;
  const debug = argv.includes('--debug');
  if (argv.includes('--help') || argv.includes('-h')) {
    const request = { given: new Map(), model };
    return { ...resolveFlags(request), help: true, debug, notices: [], argv, request };
  }
  const line = readCommandLine(argv, unused);
  const file: ConfigFile | undefined =
    line.config === undefined ? undefined : readConfigFile(line.config, unused);
  checkModelOfFlags({ model, values: line.values, where });
  if (file !== undefined)
    checkModelOfFlags({ model, values: file.values, where: `in ${file.path}`, allowDefaults: true });
  const preset = line.preset ?? file?.preset;
  const request: ResolveFlagsOptions = {
    given: line.values,
    model,
    unused,
    ...withoutUndefined({ file, preset }),
  };
  const resolved = resolveFlags(request);
  if (file !== undefined) checkModulesOfFile(file, resolved);
  const notices = [...line.notices, ...(file?.notices ?? [])];
  return { ...resolved, help: false, debug, notices, argv, request };
}

/**
 * Returns the flags of a command line, with the values from --load or --load-hf added.
 *
 * @throws ConfigurationError `MTL_FLAG_CONFLICT` for flags that contradict the loaded model.
 */
export function withLoadedFlags(flags: ParsedFlags, loaded: LoadedFlags | undefined): ParsedFlags {
  if (loaded === undefined) return flags;
  const request = { ...flags.request, loaded };
  return { ...flags, ...resolveFlags(request), request };
}

interface CommandLine {
  readonly values: Map<FlagName, unknown>;
  readonly notices: string[];
  preset?: string;
  config?: string;
}

/** An argument that begins with `--`, and its values: the arguments up to the next flag. */
interface WrittenFlag {
  /** Name of the flag, with dashes, even if the user wrote underscores. */
  readonly name: string;
  /** The text after `=`; undefined without `=`. */
  readonly attached: string | undefined;
  readonly following: readonly string[];
}

const where = 'on the command line';

function readCommandLine(argv: readonly string[], unused: Flags): CommandLine {
  const line: CommandLine = { values: new Map(), notices: [] };
  const last = new Map<string, SeenFlag>();
  const repeated = new Set<string>();
  for (const written of splitArguments(argv)) {
    const flag = withoutAlias(written);
    const { name } = flag;
    const target = isFlagName(name) ? name : (switchedOffBy(name) ?? name);
    const value = isFlagName(target) ? parseFlagValue(target, flag) : listValues(flag);
    const before = last.get(target);
    if (before !== undefined) {
      refuseContradiction({ target, before, second: { written, flag, value } });
      repeated.add(target);
    }
    last.set(target, { written, flag, value });
  }
  const unusable: UnusableFlag[] = [];
  for (const [target, { flag, value }] of last) {
    const { name } = flag;
    if (isFlagName(target)) line.values.set(target, value);
    else if (name === 'preset' || name === 'config') line[name] = soleValue(flag);
    else if (name === 'debug') noValue(flag);
    else {
      const judged = judgeOtherFlag(flag, (other) => last.get(other)?.value ?? unused[other]);
      if (typeof judged === 'string') line.notices.push(judged);
      else unusable.push(judged);
    }
  }
  const [first, ...others] = unusable;
  if (first !== undefined) throw unusableFlagsError([first, ...others], where);
  if (repeated.size > 0) {
    const inForce = [...repeated].map((target) => formatFlag(last.get(target)!.written));
    line.notices.push(`given more than once ${where}, the last one counts: ${inForce.join(', ')}`);
  }
  return line;
}

/** A flag, and its position on a command line. */
interface SeenFlag {
  readonly written: WrittenFlag;
  /** The flag that replaces its alias. */
  readonly flag: WrittenFlag;
  readonly value: unknown;
}

/**
 * Rejects two switches that contradict each other (--bf16 --no-bf16; --recompute-activations
 * --recompute-granularity full). A flag may be repeated with a different value, because scripts append to a
 * command line.
 */
function refuseContradiction(options: { target: string; before: SeenFlag; second: SeenFlag }): void {
  const { target, before, second } = options;
  const isSwitch = before.flag.name !== second.flag.name || standsForValue(before) || standsForValue(second);
  if (!isSwitch || JSON.stringify(before.value) === JSON.stringify(second.value)) return;
  throw new ConfigurationError(
    'MTL_FLAG_REPEATED',
    `${formatFlag(before.written)} and ${formatFlag(second.written)} contradict each other`,
    { expected: 'only one', remedy: 'leave the other one out', details: { flag: target } },
  );
}

function standsForValue({ written }: SeenFlag): boolean {
  return findFlagAlias(written.name)?.value !== undefined;
}

/** Replaces an alias by its flag and value. Returns other flags unchanged. */
function withoutAlias(written: WrittenFlag): WrittenFlag {
  const alias = findFlagAlias(written.name);
  if (alias === undefined) return written;
  const { flag, value } = alias;
  if (value === undefined) return { ...written, name: flag };
  noValue(written);
  return { name: flag, attached: value, following: [] };
}

function splitArguments(argv: readonly string[]): readonly WrittenFlag[] {
  const flags: Array<{ name: string; attached: string | undefined; following: string[] }> = [];
  for (const argument of argv) {
    const match = /^--([^=]+)(?:=(.*))?$/s.exec(argument);
    const last = flags.at(-1);
    if (match !== null) {
      flags.push({ name: match[1]!.replaceAll('_', '-'), attached: match[2], following: [] });
    } else if (last === undefined) {
      throw strayArgument(argument);
    } else {
      last.following.push(argument);
    }
  }
  return flags;
}

/**
 * Returns the switch that `--no-x` turns off. For a switch named `no-x`, returns the switch that `--x` turns
 * off.
 */
function switchedOffBy(name: string): FlagName | undefined {
  const opposite = name.startsWith('no-') ? name.slice(3) : `no-${name}`;
  return isFlagName(opposite) && findFlagFacts(opposite).kind === 'boolean' ? opposite : undefined;
}

function parseFlagValue(flag: FlagName, written: WrittenFlag): unknown {
  const facts = findFlagFacts(flag);
  const { kind, placeholder } = facts;
  if (kind === 'boolean') {
    if (written.name !== flag) {
      noValue(written);
      return false;
    }
    if (written.attached === undefined) noValue(written);
    return readFlagValue({ name: flag, value: written.attached ?? true, where });
  }
  if (takesSeveral(facts)) {
    const value = listValues(written);
    if (value.length === 0) throw missingValue(flag, placeholder);
    return readFlagValue({ name: flag, value, where });
  }
  return readFlagValue({ name: flag, value: soleValue(written, placeholder), where });
}

function soleValue(written: WrittenFlag, placeholder = 'NAME'): string {
  const { name } = written;
  const [value, ...rest] = listValues(written);
  if (value === undefined || value === '') throw missingValue(name, placeholder);
  if (rest.length > 0) throw strayArgument(rest[0]!, name);
  return value;
}

function listValues({ attached, following }: WrittenFlag): readonly string[] {
  return attached === undefined ? following : [attached, ...following];
}

function formatFlag(written: WrittenFlag): string {
  return [`--${written.name}`, ...listValues(written)].join(' ');
}

function noValue({ name, attached, following }: WrittenFlag): void {
  if (attached !== undefined) throw strayArgument(attached, name);
  if (following.length > 0) throw strayArgument(following[0]!, name);
}

/**
 * Checks a flag that is not in the schema. Returns a notice if the flag has no effect, or the reason why the
 * flag cannot be used.
 */
function judgeOtherFlag(
  written: WrittenFlag,
  valueOfFlag: (flag: FlagName) => unknown,
): string | UnusableFlag {
  const { name } = written;
  const megatron = findMegatronFlag(name);
  if (megatron === undefined) return unknownFlag(name);
  const values = listValues(written);
  const [least, most] = megatron.takes ?? [0, Number.POSITIVE_INFINITY];
  if (values.length > most) throw strayArgument(values[most]!, name);
  if (values.length < least) throw missingValue(name, 'VALUE');
  return judgeMegatronFlag({ name, megatron, values, where, valueOfFlag });
}

function unknownFlag(name: string): UnusableFlag {
  const known = [...flagNames, ...programFlags];
  const near = nearestName(name, known);
  return {
    code: 'MTL_FLAG_UNKNOWN',
    written: `--${name}`,
    problem: 'is not a flag',
    expected: near === undefined ? undefined : `--${near}`,
    remedy: '--help lists all flags',
    details: { flag: name, near },
  };
}

function missingValue(name: string, placeholder: string): ConfigurationError {
  return new ConfigurationError('MTL_FLAG_VALUE_MISSING', `--${name} needs a value`, {
    expected: `--${name} ${placeholder}`,
    details: { flag: name },
  });
}

function strayArgument(argument: string, after?: string): ConfigurationError {
  const place = after === undefined ? '' : ` behind --${after}`;
  const dashed = argument.replace(/^-?/, '--').replaceAll('_', '-');
  const isFlag = isFlagName(dashed.slice(2));
  return new ConfigurationError('MTL_FLAG_ARGUMENT', `"${argument}"${place} belongs to no flag`, {
    ...(isFlag ? { expected: dashed } : {}),
    remedy: isFlag ? 'flags begin with two dashes' : '--help lists all flags and what they take',
    details: { argument, after },
  });
}
