import { type ModelKind, parseFlags } from '@mtl/configuration';
import { flagsOfProgram } from '@mtl/configuration/flags';
import { MtlError } from '@mtl/errors';
import { type Argument, type Command, CommanderError, type Option } from 'commander';
import type { MtlCommand } from '../../../src/command-line/new-command.js';
import { withDashes } from '../../../src/command-line/with-dashes.js';
import { flagsOfModel } from '../../../src/commands/sft.js';
import { createProgram } from '../../../src/create-program.js';
import { commandOfHelp } from '../../../src/run-mtl.js';

/** Matches placeholders for the reader's own values: `N`, `DIR`, `FILE.jsonl`, `A|B`, `NAME...`. */
const placeholder = /^(?:[A-Z][A-Z0-9_-]*(?:\.[a-z.]+|\.\.\.)?|\.\.\.|…)$/;

const isPlaceholder = (word: string): boolean => word.split('|').every((part) => placeholder.test(part));

/** Words that stand for any flags. */
const moreFlags = new Set(['FLAGS', '...', '…']);

/** Codes of errors about missing flags and operands: a sentence may name only a part of a command. */
const lacking = new Set([
  'MTL_FLAG_REQUIRED',
  'MTL_FLAG_VALUE_MISSING',
  'MTL_ARGUMENT_MISSING',
  'MTL_COMMAND_MISSING',
]);

export interface CommandProblemsOptions {
  /** True for a command that a reader can run as it is written; false for one that a sentence names. */
  readonly isWhole: boolean;
}

const models = ['gpt', 'bert'] as const;

/**
 * Returns the problems that the command line parsers find in a command of a document; an empty list for a
 * valid command. Values that are placeholders are taken as valid.
 *
 * @param words a command line of mtl, gpt-train or bert-train, from its name on
 */
export function commandProblems(words: readonly string[], options: CommandProblemsOptions): string[] {
  const key = JSON.stringify([words, options]);
  const problems = checked.get(key) ?? listProblems(words, options);
  checked.set(key, problems);
  return problems;
}

/** Problems by command: documents repeat commands. */
const checked = new Map<string, string[]>();

function listProblems(words: readonly string[], options: CommandProblemsOptions): string[] {
  const [program, ...argv] = words;
  try {
    if (program === 'mtl') checkMtl(argv, options);
    else checkTraining(argv, program === 'bert-train' ? 'bert' : 'gpt');
    return [];
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return [];
    if (!MtlError.isInstance(error)) throw error;
    if (!options.isWhole && lacking.has(error.code)) return [];
    return [`${error.code}: ${error.message}`];
  }
}

/** This program is never used for parsing: a program can parse only once. */
const unused = createProgram();

function commandAt(path: readonly string[]): Command | undefined {
  let command: Command | undefined = unused;
  for (const name of path) command = command?.commands.find((each) => each.name() === name);
  return command;
}

/** Returns the subcommands of `mtl` or of one of its commands; undefined for an unknown one. */
export const listSubcommands = (path: readonly string[]): readonly string[] | undefined =>
  commandAt(path)?.commands.map((each) => each.name());

const allOptions = (command: Command): readonly string[] => [
  ...command.options.flatMap(({ long }) => long ?? []),
  ...command.commands.flatMap(allOptions),
];
const known = new Map<string, boolean>();

/** Tells if a command of `mtl`, or a training run, takes a flag, or knows it as one of Megatron-LM. */
export function isKnownFlag(flag: string): boolean {
  if (known.size === 0) {
    for (const each of ['--help', '--version', ...allOptions(unused)]) known.set(each, true);
  }
  const isKnown = known.get(flag) ?? isOfTraining(flag);
  known.set(flag, isKnown);
  return isKnown;
}

function isOfTraining(flag: string): boolean {
  return models.some((model) => {
    try {
      parseFlags([flag, 'x'], { model });
      return true;
    } catch (error) {
      return MtlError.isInstance(error) && error.code !== 'MTL_FLAG_UNKNOWN';
    }
  });
}

function checkMtl(argv: readonly string[], { isWhole }: CommandProblemsOptions): void {
  const given = argv.filter((word) => !moreFlags.has(word));
  const words = given[0] === 'run' ? ['run', ...withDashes(given.slice(1))] : given;
  if (words[0] !== undefined && isPlaceholder(words[0])) return;
  const program = createProgram();
  if (commandOfHelp(program, words) !== undefined) return;
  let parsed: Command | undefined;
  const prepare = (command: Command): void => {
    command.configureOutput({ writeOut: () => {}, writeErr: () => {} });
    for (const option of command.options) takePlaceholders(option);
    for (const argument of command.registeredArguments) takePlaceholders(argument);
    if (!isWhole) requireNothing(command as MtlCommand);
    if (command.commands.length === 0 || command.registeredArguments.length > 0) {
      command.action(() => {
        parsed = command;
      });
    }
    for (const each of command.commands) prepare(each);
  };
  prepare(program);
  program.parse(words, { from: 'user' });
  if (parsed !== undefined) checkInner(parsed, { isWhole });
}

/** Makes everything optional in a command, so that the command reports only what is superfluous. */
function requireNothing(command: MtlCommand): void {
  for (const option of command.options) option.makeOptionMandatory(false);
  for (const argument of command.registeredArguments) argument.argOptional();
  command.requires(() => []);
}

/** Makes an option or an argument take placeholders, which its own parser would refuse. */
function takePlaceholders(each: Pick<Option | Argument, 'parseArg'>): void {
  const { parseArg } = each;
  if (parseArg === undefined) return;
  each.parseArg = <Value>(value: string, previous: Value): Value =>
    isPlaceholder(value) ? (value as Value) : (parseArg.call(each, value, previous) as Value);
}

/** Returns the flags of `mtl sft`, whose model the reader has. */
function flagsOfSft(words: readonly string[]): readonly string[] {
  try {
    return flagsOfModel(words);
  } catch (error) {
    if (!MtlError.isInstance(error) || error.code !== 'MTL_MODEL_NONE') throw error;
    return words.map((word) => word.replace(/^--model(?==|$)/, '--load'));
  }
}

/** Checks the command line that a command passes to another program. */
function checkInner(command: Command, options: CommandProblemsOptions): void {
  const name = command.name();
  const words = command.args;
  if (name === 'run') {
    const [program, ...rest] = words;
    const args = rest[0] === '--' ? rest.slice(1) : rest;
    if (program === 'mtl') checkMtl(args, options);
    else if (/^(gpt|bert)(-train)?$/.test(program!))
      checkTraining(args, program!.slice(0, 4) === 'bert' ? 'bert' : 'gpt');
  } else if (name === 'plan') checkTraining(words, command.opts<{ model: ModelKind }>().model);
  else if (name === 'gpt' || name === 'bert') checkTraining(words, name);
  else if (name === 'sft') checkTraining(flagsOfSft(words), 'gpt');
  else if (name === 'build-index') {
    const at = words.indexOf('--model');
    checkTraining(
      at < 0 ? words : words.toSpliced(at, 2),
      words[at + 1] === 'bert' && at >= 0 ? 'bert' : 'gpt',
    );
  }
}

function checkTraining(argv: readonly string[], model: ModelKind): void {
  parseFlags(withValues(argv, model), { model });
}

/** Returns flags whose placeholders are values that they take, without words that stand for flags. */
function withValues(argv: readonly string[], model: ModelKind): string[] {
  const words: string[] = [];
  let flag: string | undefined;
  for (const word of argv) {
    if (word.startsWith('--')) {
      flag = word;
      words.push(word);
    } else if (flag === '--config') {
      // a file that the reader has
      words.pop();
      flag = undefined;
    } else if (!isPlaceholder(word)) words.push(word);
    // after a value, the placeholder stands for more flags
    else if (flag !== undefined && words.at(-1) === flag) words.push(...exampleValue(flag, model));
  }
  return words;
}

/** Returns a value that a flag takes; empty for an unknown flag and for a flag without a value. */
function exampleValue(flag: string, model: ModelKind): readonly string[] {
  const described = flagsOfProgram(model).find(({ name }) => `--${name}` === flag);
  if (described === undefined || described.placeholder === '') return [];
  const value = [...described.names, '1', '0.5', 'text'].find((each) => {
    try {
      parseFlags([flag, each], { model });
      return true;
    } catch {
      return false;
    }
  });
  return value === undefined ? [] : [value];
}

/** Commands that pass their flags to a training run. */
const ofTraining = /^(gpt-train|bert-train|mtl (train (gpt|bert)|sft|data build-index))$/;

/** Tells if a command, given by its words, takes a flag. */
export function takesFlag(words: readonly string[], flag: string): boolean {
  if (ofTraining.test(words.join(' ')) && isKnownFlag(flag)) return true;
  const options = words[0] === 'mtl' ? (commandAt(words.slice(1))?.options ?? []) : [];
  return ['--help', ...options.map(({ long }) => long)].includes(flag);
}
