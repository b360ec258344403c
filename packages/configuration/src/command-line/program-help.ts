import { checkOptions, numberOption, type OptionChecks, required, textOption } from '@mtl/errors/options';
import { scheduleNames } from '@mtl/pipeline/schedules';
import type { ModelKind } from '../architecture/architecture-field.js';
import { modelKindOption } from '../options/option-checks.js';
import { findPresets } from '../presets/presets.js';
import { describeFlag } from '../schema/describe-flag.js';
import { type FlagName, findFlagFacts, flagGroups, flagNames } from '../schema/flag-schema.js';
import { modelOfFlag } from '../schema/model-of-flag.js';

export interface FormatHelpOptions {
  /** The command that starts the program, such as `npm run gpt-train --`. */
  readonly program: string;
  /** Width of the terminal, in characters. Default and maximum: 100. */
  readonly columns?: number | undefined;
  /** A description of the program, in one line. */
  readonly description: string;
  /** The kind of model that the program trains. The help shows the flags of this kind. Default: gpt. */
  readonly model?: ModelKind;
}

/** The largest and the smallest width of help, in characters. */
const mostColumns = 100;
const leastColumns = 60;
const flagColumn = 2;
const mostTextColumn = 44;

const programHelp = (model: ModelKind): ReadonlyArray<readonly [string, string]> => [
  [
    '--preset NAME',
    `A named set of flags: ${Object.keys(findPresets(model).presets).join(', ')}; or none. ` +
      `[${findPresets(model).whenNothingIsAsked} without --config, --load, --load-hf and flags of model size, data ` +
      'and tokenizer; none with either]',
  ],
  ['--config FILE', 'Flags from a YAML or JSON file; flags of the command line override them.'],
  ['--debug', 'Prints errors with their stack.'],
  ['--help, -h', 'Prints this.'],
];

const checks: OptionChecks<FormatHelpOptions> = {
  program: required(textOption),
  columns: numberOption,
  description: required(textOption),
  model: modelKindOption,
};

/**
 * Returns the help text: all flags by group, with their values, meaning and default.
 *
 * @throws ConfigurationError `MTL_OPTION`
 */
export function formatHelp(options: FormatHelpOptions): string {
  checkOptions(options, { of: 'formatHelp', checks });
  const { program, description, model = 'gpt', columns = mostColumns } = options;
  const width = Math.max(leastColumns, Math.min(mostColumns, columns));
  const groups = flagGroups.flatMap(({ title, flags }) => {
    const names = (Object.keys(flags) as FlagName[]).filter((name) =>
      [undefined, model].includes(modelOfFlag(name)),
    );
    const rows = names.map((name) =>
      formatRow({ usage: formatUsage(name), text: describeFlag(name).text, width }),
    );
    return rows.length === 0 ? [] : [`${title}\n${rows.join('\n')}`];
  });
  const own = `This program\n${programHelp(model)
    .map(([usage, text]) => formatRow({ usage, text, width }))
    .join('\n')}`;
  const note = wrap(
    'Flags have the names of Megatron-LM; underscores may stand for dashes. A switch is turned off again with --no-NAME. ' +
      'The command line overrides --config, which overrides what --load or --load-hf has, which overrides --preset, ' +
      'which overrides the defaults shown here.',
    width,
  ).join('\n');
  return [`usage: ${program} [flags]`, wrap(description, width).join('\n'), own, ...groups, note].join(
    '\n\n',
  );
}

function formatUsage(name: FlagName): string {
  return `--${name} ${describeFlag(name).placeholder}`.trimEnd();
}

function formatRow({ usage, text, width }: { usage: string; text: string; width: number }): string {
  const textColumn = Math.min(mostTextColumn, Math.floor(width / 2));
  const [first = '', ...rest] = wrap(text, width - textColumn);
  const indent = ' '.repeat(textColumn);
  const left = `${' '.repeat(flagColumn)}${usage}`;
  const lines =
    left.length + 2 <= textColumn
      ? [left.padEnd(textColumn) + first, ...rest.map((line) => indent + line)]
      : [left, ...[first, ...rest].map((line) => indent + line)];
  return lines.join('\n');
}

function wrap(text: string, columns: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= columns)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** A flag of a training program, for the completion of command lines in a shell. */
export interface FlagOfProgram {
  /** Name of the flag, without dashes. */
  readonly name: string;
  /** A description of the flag's function. */
  readonly text: string;
  /** The placeholder of the flag's value; empty for a switch. */
  readonly placeholder: string;
  /** Names that the flag accepts as values. The flag may also accept other values. */
  readonly names: readonly string[];
}

/** Returns all flags of the program that trains models of the given kind, in the order of its help. */
export function flagsOfProgram(model: ModelKind): readonly FlagOfProgram[] {
  const presets = [...Object.keys(findPresets(model).presets), 'none'];
  const own: readonly FlagOfProgram[] = [
    { name: 'preset', text: 'A named set of flags.', placeholder: 'NAME', names: presets },
    { name: 'config', text: 'Flags from a YAML or JSON file.', placeholder: 'FILE', names: [] },
    { name: 'debug', text: 'Prints errors with their stack.', placeholder: '', names: [] },
    { name: 'help', text: 'Prints all flags.', placeholder: '', names: [] },
  ];
  const flags = flagNames.filter((name) => [undefined, model].includes(modelOfFlag(name)));
  return [
    ...own,
    ...flags.map((name) => {
      const { kind, placeholder } = findFlagFacts(name);
      const choices = kind === 'choice' ? placeholder.split('|') : [];
      const names = name === 'pipeline-schedule' ? scheduleNames : choices;
      return { name, text: describeFlag(name).text, placeholder, names };
    }),
  ];
}
