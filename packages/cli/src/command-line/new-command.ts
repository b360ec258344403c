import { ConfigurationError, nearestName } from '@mtl/errors';
import { Command, type Option, type ParseOptionsResult } from 'commander';
import {
  commandLineError,
  formatCommandPath,
  type MissingWord,
  missingArgument,
  missingOption,
  missingWordsError,
} from './command-line-error.js';

/** Returns the missing flags and operands of a command line. */
type FindMissing<Values> = (values: Values, operands: readonly string[]) => readonly MissingWord[];

/**
 * A command whose errors have codes. One error names all missing flags and operands. A repeated flag is
 * rejected, because the intended value is unknown.
 */
export class MtlCommand extends Command {
  override createCommand(name?: string): Command {
    return new MtlCommand(name);
  }

  #allowsUnknown = false;
  /** Names of the options given so far; `--name` and `--no-name` have the same name. */
  readonly #given = new Set<string>();

  override allowUnknownOption(allow = true): this {
    this.#allowsUnknown = allow;
    return super.allowUnknownOption(allow);
  }

  #findMissing: FindMissing<never> = () => [];

  /**
   * Declares flags that are required only if certain other flags are given.
   *
   * @param find returns the missing flags. The command calls it before the action, with the given values,
   *   from which required options may be missing. It throws if the given values contradict each other,
   *   because then no further flag would help.
   */
  requires<Values extends object>(find: FindMissing<Values>): this {
    this.#findMissing = find;
    return this;
  }

  /**
   * Rejects unknown flags first. Otherwise, if the user misspelled a required flag, Commander would report
   * that flag as missing.
   */
  override parseOptions(argv: string[]): ParseOptionsResult {
    const parsed = super.parseOptions(argv);
    const [unknown] = parsed.unknown;
    const asksForHelp = parsed.unknown.some((word) => word === '-h' || word === '--help');
    if (this.commands.length > 0 || asksForHelp) return parsed;
    if (unknown === undefined || this.#allowsUnknown) {
      this.#refuseMissing(parsed.operands);
      return parsed;
    }
    const flag = unknown.split('=', 1)[0]!;
    if (this.options.some(({ long, short }) => long === flag || short === flag)) {
      throw new ConfigurationError(
        'MTL_FLAG_ARGUMENT',
        `${formatCommandPath(this)}: ${unknown}: ${flag} takes no value`,
        {
          expected: flag,
        },
      );
    }
    const near = nearestName(
      flag,
      this.options.flatMap(({ long, short }) => [long, short]).filter((name) => name != null),
    );
    throw new ConfigurationError('MTL_FLAG_UNKNOWN', `${formatCommandPath(this)}: ${flag} is not a flag`, {
      ...(near === undefined ? {} : { expected: near }),
      remedy:
        `${formatCommandPath(this)} --help lists its commands and flags` +
        (this.registeredArguments.some((argument) => argument.name() === 'flags')
          ? '; flags of the training run follow --'
          : ''),
    });
  }

  /**
   * Throws one error that names all missing flags and operands. Commander's error would name only the first.
   */
  #refuseMissing(operands: readonly string[]): void {
    const values = this.opts();
    const [first, ...others] = [
      ...this.registeredArguments
        .filter(({ required }, at) => required && operands[at] === undefined)
        .map(missingArgument),
      ...this.options
        .filter((option) => option.mandatory && values[option.attributeName()] === undefined)
        .map(missingOption),
      ...this.#findMissing(values as never, operands),
    ];
    if (first !== undefined) throw missingWordsError(this, [first, ...others]);
  }

  override addOption(option: Option): this {
    super.addOption(option);
    // Commander emits the event of a variadic option once for each value.
    if (!option.variadic) {
      this.on(`option:${option.name()}`, () => {
        const name = option.attributeName();
        if (this.#given.has(name)) {
          const flag = option.negate ? option.long?.replace(/^--no-/, '--') : option.long;
          throw new ConfigurationError(
            'MTL_FLAG_REPEATED',
            `${formatCommandPath(this)}: ${flag} is given twice`,
            {
              expected: 'each flag once',
            },
          );
        }
        this.#given.add(name);
      });
    }
    return this;
  }
}

type Describable = Pick<Option, 'description' | 'argChoices' | 'defaultValue' | 'defaultValueDescription'>;

/** Returns a description with choices and default, formatted like the help of training flags. */
function describe({ description, argChoices, defaultValue, defaultValueDescription }: Describable): string {
  const shown = defaultValueDescription ?? (defaultValue === undefined ? undefined : String(defaultValue));
  // the description itself may end with a default in brackets
  const [text, words] = description.split(/ (?=\[)/) as [string, string?];
  const inWords = words ?? (shown === undefined ? undefined : `[${shown}]`);
  return [
    text,
    ...(argChoices === undefined ? [] : [`One of ${argChoices.join(', ')}.`]),
    ...(inWords === undefined ? [] : [inWords]),
  ].join(' ');
}

/** Returns a new command with `--debug` and coded errors. */
export function newCommand(name: string, description: string): MtlCommand {
  const command: MtlCommand = new MtlCommand(name)
    .description(description)
    .enablePositionalOptions()
    .option('--debug', 'Shows where an error came from.')
    .helpOption('-h, --help', 'Shows this help.')
    .configureHelp({
      optionDescription: describe,
      argumentDescription: (argument) => describe(argument as Describable),
      subcommandDescription: (each) =>
        // commander adds the help command without this project's wording
        each.name() === 'help' ? 'Shows the help of a command.' : each.description(),
    })
    .configureOutput({ writeErr: () => {} })
    .exitOverride((error) => {
      if (error.exitCode === 0) throw error;
      throw commandLineError(error, command);
    });
  return command;
}
