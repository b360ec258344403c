import type { z } from 'zod';
import type { ModelKind } from '../architecture/architecture-field.js';
import type { flagGroups } from '../schema/flag-schema.js';
import type { FlagFragment } from '../strategies/strategy.js';

/** Returns `numLayers` for `num-layers` */
export type CamelCase<Name extends string> = Name extends `${infer First}-${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;

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

/** A GPT or a BERT, see `RunOptions`. */
export type ModelOptions = TopicOptions<'model'> & {
  /** Default: gpt. */
  readonly kind?: ModelKind | undefined;
};

/**
 * A training run in TypeScript: what command lines write as flags, by topic, each option with the name of
 * Megatron-LM's flag in camel case: `{ optimizer: { lr: 1e-3, clipGrad: 1 } }`. Meaning, range and default
 * of each are those of the flag (`gpt-train --help`); `configure` checks them.
 */
export type RunOptions = {
  readonly [Topic in Exclude<OptionTopic, 'model'>]?: TopicOptions<Topic> | undefined;
} & {
  readonly model?: ModelOptions | undefined;
  /**
   * A preset that all options are laid over; `none` for the defaults of the flags alone. Default: none, or
   * the smallest one of the model where no option is of a model or data of one's own.
   */
  readonly preset?: string | undefined;
};
