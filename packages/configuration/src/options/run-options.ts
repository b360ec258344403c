import { ConfigurationError, rewordError } from '@mtl/errors';
import { checkArgument, objectOption } from '@mtl/errors/options';
import type * as z from 'zod';
import type { ModelKind } from '../architecture/architecture-field.js';
import type { AllOf, FlagFragment } from '../flags/flag-values.js';
import {
  type CamelCase,
  isFormerName,
  type OptionName,
  optionName,
  type renamedOptions,
} from '../flags/option-names.js';
import type { PresetName } from '../presets/presets.js';
import { type FlagName, type Flags, flagGroups } from '../schema/flag-schema.js';

/** The values of flags, keyed by the flags' names in camel case. */
export type OptionsOf<Fragment extends FlagFragment> = {
  readonly [Name in keyof Fragment & string as CamelCase<Name>]?: z.infer<Fragment[Name]> | undefined;
};

/** The run options for a topic's flags, under their current and deprecated names. */
type RunOptionsOf<Fragment extends FlagFragment> = {
  readonly [Name in keyof Fragment & string as OptionName<Name>]?: z.infer<Fragment[Name]> | undefined;
} & FormerNames<OptionsOf<Fragment>>;

/** The deprecated names of options. */
type FormerNames<Options> = {
  readonly [Name in keyof typeof renamedOptions as Name & keyof Options]?:
    | Options[Name & keyof Options]
    | undefined;
};

type Group = (typeof flagGroups)[number];
/** The name of a topic of options. */
export type OptionTopic = Exclude<Group['topic'], undefined>;
/** All options of a topic. */
type TopicOptions<Topic extends OptionTopic> = AllOf<
  Extract<Group, { readonly topic: Topic }> extends infer Each
    ? Each extends { readonly flags: infer Fragment extends FlagFragment }
      ? RunOptionsOf<Fragment>
      : never
    : never
>;

/** The options of a GPT's or a BERT's architecture (see `RunOptions`). */
export type ModelOptions = TopicOptions<'model'> & {
  /** The kind of the model. Default: gpt. */
  readonly kind?: ModelKind | undefined;
};

/**
 * The options of a training run, by topic. Each option is a flag of the command line, under its name in camel
 * case, with abbreviations written out as in `PretrainingConfiguration`:
 * `{ optimizer: { maxLearningRate: 1e-3, clipGrad: 1 } }` for `--lr 1e-3 --clip-grad 1`. It has the flag's
 * meaning, range and default (`gpt-train --help`), which `configure` checks.
 */
export type RunOptions = {
  readonly [Topic in Exclude<OptionTopic, 'model'>]?: TopicOptions<Topic> | undefined;
} & {
  readonly model?: ModelOptions | undefined;
  /**
   * The name of a preset, whose values the options override; `none` for the flags' defaults only. Default:
   * `none`, or the smallest preset of the model if no option describes a model or data.
   */
  readonly preset?: PresetName | undefined;
};

/** An option, identified by its topic and its name in the topic. */
interface PlaceOfOption {
  readonly topic: OptionTopic;
  readonly key: string;
}

/** The option of each flag, keyed by flag name. Flags that exist only on command lines are left out. */
const optionOfFlag = new Map<string, PlaceOfOption>(
  flagGroups.flatMap(({ topic, flags }) =>
    topic === undefined ? [] : Object.keys(flags).map((name) => [name, { topic, key: optionName(name) }]),
  ),
);

/** The topics, in the order of help. */
export const optionTopics: readonly OptionTopic[] = [
  ...new Set([...optionOfFlag.values()].map(({ topic }) => topic)),
];

/** The flags of each topic, keyed by option name. */
export const flagsOfTopic: ReadonlyMap<OptionTopic, ReadonlyMap<string, FlagName>> = new Map(
  optionTopics.map((topic) => [
    topic,
    new Map(
      [...optionOfFlag]
        .filter(([, option]) => option.topic === topic)
        .map(([name, { key }]) => [key, name as FlagName]),
    ),
  ]),
);

/** Returns the path of a flag's option: `optimizer.maxLearningRate` for `lr`. */
export function findOption(flag: string): string | undefined {
  const option = optionOfFlag.get(flag);
  return option && `${option.topic}.${option.key}`;
}

/** The values of a topic's options, keyed by option name. */
export type TopicValues = Readonly<Record<string, unknown>>;

/**
 * Returns the values of a topic's options under their current names, with a notice for each deprecated name.
 *
 * @throws ConfigurationError `MTL_OPTION` if an option is given under both of its names
 */
export function withCurrentNames(
  topic: OptionTopic,
  values: TopicValues,
): { readonly values: TopicValues; readonly notices: readonly string[] } {
  const own = flagsOfTopic.get(topic)!;
  const former = Object.keys(values).filter((name) => isFormerName(name) && own.has(optionName(name)));
  if (former.length === 0) return { values, notices: [] };
  const current = new Map(Object.entries(values).filter(([name]) => !former.includes(name)));
  const notices: string[] = [];
  for (const name of former) {
    if (values[name] === undefined) continue;
    const [was, is] = [`${topic}.${name}`, `${topic}.${optionName(name)}`];
    if (current.get(optionName(name)) !== undefined) {
      throw new ConfigurationError('MTL_OPTION', `${was} and ${is} are one option: ${is} is its name`, {
        expected: is,
        remedy: `leave ${was} out`,
        details: { option: was },
      });
    }
    current.set(optionName(name), values[name]);
    notices.push(`${was} is now ${is}`);
  }
  return { values: Object.fromEntries(current), notices };
}

/** Matches a flag in a string: two dashes that follow neither a letter nor a dash, and the name. */
const flag = /(?<![\w-])--([a-z][a-z0-9-]*)/g;

const inOptions = (text: string): string =>
  text.replace(flag, (written: string, name: string) => {
    if (name === 'preset') return name;
    const switchedOff = name.startsWith('no-') ? findOption(name.slice(3)) : undefined;
    return findOption(name) ?? (switchedOff === undefined ? written : `${switchedOff} false`);
  });

/**
 * Returns an error in which names of flags are replaced by names of options (`--clip-grad -1` →
 * `optimizer.clipGrad -1`). Class and code stay the same.
 */
export const inWordsOfOptions = (error: unknown): unknown => rewordError(error, inOptions);

const flagsOption = objectOption('values of flags by their names');

/**
 * Returns the options for given values of flags. Flags that exist only on command lines, such as --dry-run,
 * are left out.
 *
 * @throws ConfigurationError `MTL_OPTION`
 */
export function optionsOfFlags(flags: Flags): RunOptions {
  checkArgument(flags, { name: 'flags', check: flagsOption });
  const options: Record<string, Record<string, unknown>> = {};
  for (const [flag, value] of Object.entries(flags)) {
    const name = optionOfFlag.get(flag);
    if (name !== undefined) options[name.topic] = { ...options[name.topic], [name.key]: value };
  }
  return options;
}
