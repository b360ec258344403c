import { ConfigurationError, nearestName } from '@mtl/errors';
import { Command, type Option, type ParseOptionsResult } from 'commander';
import { commandLineError } from './command-line-error.js';
import { pathOf } from './path-of.js';

/**
 * A command whose errors are coded, and that refuses a flag given twice: it cannot know which value was
 * meant.
 */
class MtlCommand extends Command {
  override createCommand(name?: string): Command {
    return new MtlCommand(name);
  }

  #allowsUnknown = false;
  /** `--name` and `--no-name` are one. */
  readonly #given = new Set<string>();

  override allowUnknownOption(allow = true): this {
    this.#allowsUnknown = allow;
    return super.allowUnknownOption(allow);
  }

  /** Refuses an unknown flag here, before commander misses the one that it was a misspelling of. */
  override parseOptions(argv: string[]): ParseOptionsResult {
    const parsed = super.parseOptions(argv);
    const [unknown] = parsed.unknown;
    const asksForHelp = parsed.unknown.some((word) => word === '-h' || word === '--help');
    if (unknown === undefined || this.commands.length > 0 || this.#allowsUnknown || asksForHelp)
      return parsed;
    const flag = unknown.split('=', 1)[0]!;
    if (this.options.some(({ long, short }) => long === flag || short === flag)) {
      throw new ConfigurationError(
        'MTL_FLAG_ARGUMENT',
        `${pathOf(this)}: ${unknown}: ${flag} takes no value`,
        {
          expected: flag,
        },
      );
    }
    const near = nearestName(
      flag,
      this.options.flatMap(({ long, short }) => [long, short]).filter((name) => name != null),
    );
    throw new ConfigurationError('MTL_FLAG_UNKNOWN', `${pathOf(this)}: ${flag} is not a flag`, {
      ...(near === undefined ? {} : { expected: near }),
      remedy:
        `${pathOf(this)} --help lists its commands and flags` +
        (this.registeredArguments.some((argument) => argument.name() === 'flags')
          ? '; those of the training run follow --'
          : ''),
    });
  }

  override addOption(option: Option): this {
    super.addOption(option);
    // Commander emits the event of an option of several values once for each of them.
    if (!option.variadic) {
      this.on(`option:${option.name()}`, () => {
        const name = option.attributeName();
        if (this.#given.has(name)) {
          const flag = option.negate ? option.long?.replace(/^--no-/, '--') : option.long;
          throw new ConfigurationError('MTL_FLAG_REPEATED', `${pathOf(this)}: ${flag} is given twice`, {
            expected: 'each flag once',
          });
        }
        this.#given.add(name);
      });
    }
    return this;
  }
}

/** A new command with `--debug` and coded errors. */
export function newCommand(name: string, description: string): Command {
  const command: Command = new MtlCommand(name)
    .description(description)
    .enablePositionalOptions()
    .option('--debug', 'show where an error came from')
    .helpOption('-h, --help', 'show this help')
    .configureOutput({ writeErr: () => {} })
    .exitOverride((error) => {
      if (error.exitCode === 0) throw error;
      throw commandLineError(error, command);
    });
  return command;
}
