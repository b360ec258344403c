import { ConfigurationError, listedNames } from '@mtl/errors';
import type { Argument, Command, Option } from 'commander';
import { pathOf } from './path-of.js';

/** A flag or an operand that a command line lacks. */
export interface MissingWord {
  /** The flag or operand, with what may take its place: `--load (or --load-hf)`, `PREFIX`. */
  readonly name: string;
  /** How it is written: `--load DIR`, `PREFIX...`. */
  readonly usage: string;
}

/** A mandatory option that was not given. */
export function missingOption(option: Option): MissingWord {
  const value = option.argChoices?.join('|');
  const usage =
    value === undefined
      ? option.flags.replace(/<(.+)>/, (_, name: string) => name.toUpperCase())
      : `${option.long} ${value}`;
  return { name: option.long!, usage };
}

/** A mandatory operand that was not given. */
export function missingArgument(argument: Argument): MissingWord {
  const name = argument.name().toUpperCase();
  const usage = argument.argChoices?.join('|') ?? name;
  return { name, usage: argument.variadic ? `${usage}...` : usage };
}

/** One error that names all that a command line lacks. */
export function missingWordsError(
  command: Command,
  missing: readonly [MissingWord, ...MissingWord[]],
): ConfigurationError {
  const path = pathOf(command);
  const names = missing.map(({ name }) => name);
  const isFlag = names.some((name) => name.startsWith('--'));
  const [verb, them] = names.length === 1 ? ['is', 'it'] : ['are', 'them'];
  return new ConfigurationError(
    isFlag ? 'MTL_FLAG_REQUIRED' : 'MTL_ARGUMENT_MISSING',
    `${path}: ${listedNames(names)} ${verb} missing`,
    {
      expected: [path, ...missing.map(({ usage }) => usage)].join(' '),
      remedy: `pass ${them}; ${path} --help describes all flags`,
      details: { missing: names },
    },
  );
}
