import { type FlagName, flagGroups } from '../flags/flag-schema.js';
import type { OptionTopic } from './run-options.js';

/** An option of a run: the topic it is of and its name there. */
export interface OptionName {
  readonly topic: OptionTopic;
  readonly key: string;
}

/** `num-layers` → `numLayers` */
export const camelCase = (name: string): string =>
  name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());

const optionOfFlag = new Map<string, OptionName>(
  flagGroups.flatMap(({ topic, flags }) =>
    topic === undefined ? [] : Object.keys(flags).map((name) => [name, { topic, key: camelCase(name) }]),
  ),
);

/** The topics, in the order of help. */
export const optionTopics: readonly OptionTopic[] = [
  ...new Set([...optionOfFlag.values()].map(({ topic }) => topic)),
];

/** The flags of a topic by the names of their options. */
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

/** The option that a flag is of; undefined for what only command lines have. */
export const optionNameOf = (flag: string): OptionName | undefined => optionOfFlag.get(flag);

/** The same as it is written: `lr` → `optimizer.lr`. */
export function optionOf(flag: string): string | undefined {
  const option = optionNameOf(flag);
  return option && `${option.topic}.${option.key}`;
}
