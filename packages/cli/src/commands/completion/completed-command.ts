import { type FlagOfProgram, flagsOfProgram, type ModelKind } from '@mtl/configuration';
import type { Argument, Command, Option } from 'commander';
import { suggestedValues } from '../../command-line/option-values.js';

/** A value as shells complete it: by some names, by files, or not at all. */
export interface CompletedValue {
  readonly names: readonly string[];
  readonly takesFiles: boolean;
  /** True where more values may follow the first. */
  readonly isVariadic: boolean;
}

export interface CompletedFlag {
  /** `--input`, `-h`. */
  readonly words: readonly string[];
  readonly text: string;
  /** Undefined for a switch. */
  readonly value: CompletedValue | undefined;
}

/** A command, or the part of its command line behind `--`. */
export interface CompletedCommand {
  /** The words that lead to it behind `mtl`: `data prepare`, or `plan --` for what follows the dashes. */
  readonly path: string;
  /** Its subcommands with what they do. */
  readonly commands: ReadonlyArray<readonly [name: string, text: string]>;
  readonly flags: readonly CompletedFlag[];
  /** Undefined where it takes no operand. */
  readonly operands: CompletedValue | undefined;
}

/** Commands whose flags are those of a training program, with the model that it trains. */
const trainingPrograms: Readonly<Record<string, ModelKind>> = {
  'train gpt': 'gpt',
  'train bert': 'bert',
  sft: 'gpt',
  'data build-index': 'gpt',
  'plan --': 'gpt',
};

/** Flags that these commands read before the training program does. */
const flagsBefore: Readonly<Record<string, readonly FlagOfProgram[]>> = {
  sft: [{ name: 'model', text: 'The model to fine-tune.', placeholder: 'DIR', names: [] }],
  'data build-index': [
    {
      name: 'model',
      text: 'The model that the data are for.',
      placeholder: 'NAME',
      names: ['gpt', 'bert'],
    },
  ],
};

/** Returns all commands of a program, itself first, with what shells complete for each. */
export function completedCommands(program: Command): readonly CompletedCommand[] {
  return [...described(program, ''), trainingFlagsOf('plan --')];
}

function described(command: Command, path: string): readonly CompletedCommand[] {
  const commands = command.commands.map((each) => [each.name(), each.description()] as const);
  const isTraining = Object.hasOwn(trainingPrograms, path);
  const [operand] = command.registeredArguments;
  const hasOperands = operand !== undefined && operand.name() !== 'flags';
  const own: CompletedCommand = isTraining
    ? trainingFlagsOf(path)
    : {
        path,
        commands,
        flags: [...command.options.filter(({ hidden }) => !hidden).map(flagOf), help],
        operands: hasOperands ? operandOf(operand) : undefined,
      };
  const others = command.commands.flatMap((each) => described(each, `${path} ${each.name()}`.trimStart()));
  return [own, ...others];
}

const help: CompletedFlag = { words: ['--help', '-h'], text: 'Shows this help.', value: undefined };

function flagOf(option: Option): CompletedFlag {
  const words = [option.long, option.short].filter((word) => word != null);
  const placeholder = /<(.+)>/.exec(option.flags)?.[1];
  return {
    words,
    text: option.description,
    value:
      placeholder === undefined
        ? undefined
        : completedValue(placeholder, { names: suggestedValues(option), isVariadic: option.variadic }),
  };
}

function operandOf(argument: Argument): CompletedValue {
  const names = argument.argChoices ?? [];
  // commands take datasets, runs, programs and directories: all are files
  return { names, takesFiles: names.length === 0, isVariadic: argument.variadic };
}

function trainingFlagsOf(path: string): CompletedCommand {
  const flags = [...(flagsBefore[path] ?? []), ...flagsOfProgram(trainingPrograms[path]!)];
  return {
    path,
    commands: [],
    flags: flags.map(({ name, text, placeholder, names }) => ({
      words: [`--${name}`],
      text,
      value:
        placeholder === ''
          ? undefined
          : completedValue(placeholder, { names, isVariadic: placeholder.includes('...') }),
    })),
    operands: undefined,
  };
}

/** Names of values that are files, or begin as files do. */
const ofFiles = /file|dir|path|prefix|trace|profile|schedule/i;

function completedValue(
  placeholder: string,
  { names, isVariadic }: Pick<CompletedValue, 'names' | 'isVariadic'>,
): CompletedValue {
  return { names, takesFiles: ofFiles.test(placeholder), isVariadic };
}
