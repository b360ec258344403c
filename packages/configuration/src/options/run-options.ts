import { rewordError } from '@mtl/errors';
import { checkArgument, objectOption } from '@mtl/errors/options';
import type * as z from 'zod';
import type { ModelKind } from '../architecture/architecture-field.js';
import type { PresetName } from '../presets/presets.js';
import { type FlagName, type Flags, flagGroups } from '../schema/flag-schema.js';
import type { FlagFragment } from '../strategies/strategy.js';

/** The name of a flag in camel case: `numLayers` for `num-layers`. */
export type CamelCase<Name extends string> = Name extends `${infer First}-${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;

/** Returns the name of a flag in camel case: `numLayers` for `num-layers`. */
export const camelCase = (name: string): string =>
  name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());

/** The options that flags stand for: each flag's name in camel case. */
export type OptionsOf<Fragment extends FlagFragment> = {
  readonly [Name in keyof Fragment & string as CamelCase<Name>]?: z.infer<Fragment[Name]> | undefined;
};

type Group = (typeof flagGroups)[number];
/** The topics of a run. */
export type OptionTopic = Exclude<Group['topic'], undefined>;
type AllOf<Union> = (Union extends unknown ? (each: Union) => void : never) extends (all: infer All) => void
  ? All
  : never;
/** All options of a topic. */
type TopicOptions<Topic extends OptionTopic> = AllOf<
  Extract<Group, { readonly topic: Topic }> extends infer Each
    ? Each extends { readonly flags: infer Fragment extends FlagFragment }
      ? OptionsOf<Fragment>
      : never
    : never
>;

/** The model options of a GPT or a BERT, see `RunOptions`. */
export type ModelOptions = TopicOptions<'model'> & {
  /** The kind of the model. Default: gpt. */
  readonly kind?: ModelKind | undefined;
};

/**
 * A training run in TypeScript: the flags of a command line, by topic. Each option has the name of
 * Megatron-LM's flag in camel case: `{ optimizer: { lr: 1e-3, clipGrad: 1 } }`. It also has the flag's
 * meaning, range and default (`gpt-train --help`); `configure` checks them.
 */
export type RunOptions = {
  readonly [Topic in Exclude<OptionTopic, 'model'>]?: TopicOptions<Topic> | undefined;
} & {
  readonly model?: ModelOptions | undefined;
  /**
   * A preset whose values the options override; `none` for only the defaults of the flags. Default: `none`,
   * or the smallest preset of the model if no option describes a model or data of the user's own.
   */
  readonly preset?: PresetName | undefined;
};

/** An option of a run: its topic, and its name in the topic. */
interface OptionName {
  readonly topic: OptionTopic;
  readonly key: string;
}

/** The option of each flag, by the flag's name; flags that exist only on command lines are left out. */
const optionOfFlag = new Map<string, OptionName>(
  flagGroups.flatMap(({ topic, flags }) =>
    topic === undefined ? [] : Object.keys(flags).map((name) => [name, { topic, key: camelCase(name) }]),
  ),
);

/** The topics, in the order of help. */
export const optionTopics: readonly OptionTopic[] = [
  ...new Set([...optionOfFlag.values()].map(({ topic }) => topic)),
];

/** For each topic, the flags by the names of their options. */
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

/** Returns the option of a flag as programs write it: `optimizer.lr` for `lr`. */
export function optionOf(flag: string): string | undefined {
  const option = optionOfFlag.get(flag);
  return option && `${option.topic}.${option.key}`;
}

/** A flag in a text: two dashes that follow neither a letter nor a dash. */
const flag = /(?<![\w-])--([a-z][a-z0-9-]*)/g;

const inOptions = (text: string): string =>
  text.replace(flag, (written: string, name: string) => {
    if (name === 'preset') return name;
    const switchedOff = name.startsWith('no-') ? optionOf(name.slice(3)) : undefined;
    return optionOf(name) ?? (switchedOff === undefined ? written : `${switchedOff} false`);
  });

/**
 * Returns an error for users of options: names of flags are replaced by names of options (`--clip-grad -1` →
 * `optimizer.clipGrad -1`). Class and code stay the same.
 */
export const inWordsOfOptions = (error: unknown): unknown => rewordError(error, inOptions);

const flagsOption = objectOption('values of flags by their names');

/**
 * Returns the options for values of flags; flags that exist only on command lines, such as --dry-run, are
 * left out.
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
