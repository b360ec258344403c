import type { OptionsOf, TokenizerConfiguration } from '@mtl/configuration';
import {
  defaultOfSchema,
  describeSchema,
  type FlagFragment,
  readFlagValue,
  readTokenizerFlags,
  type tokenizerFlags,
} from '@mtl/configuration/flags';
import { Option } from 'commander';
import type { MtlCommand } from './new-command.js';
import { suggestValues } from './option-values.js';

/**
 * Adds the given flags to a command as options, with the flags' names, help, checks and defaults. A switch
 * also gets a hidden option `--no-NAME`. Values are stored under the flags' names in camel case.
 *
 * @param how.filled true to set the defaults of flags that are not given. Default: such flags have no value
 */
export function addFlags(
  command: MtlCommand,
  flags: FlagFragment,
  { filled = false }: { readonly filled?: boolean } = {},
): MtlCommand {
  for (const [name, schema] of Object.entries(flags)) {
    const option = makeOption(name, schema);
    if (filled && option.required) option.default(defaultOfSchema(schema));
    command.addOption(option);
    if (!option.required) command.addOption(new Option(`--no-${name}`).hideHelp());
  }
  return command;
}

function makeOption(name: string, schema: FlagFragment[string]): Option {
  const { placeholder, text, takesSeveral, choices } = describeSchema(schema);
  if (placeholder === '') return new Option(`--${name}`, text);
  if (takesSeveral) return new Option(`--${name} <${placeholder.replace(/ ?\.\.\.$/, '')}...>`, text);
  const option = new Option(`--${name} <${placeholder}>`, text).argParser((value) =>
    readFlagValue({ name, schema, value, where: 'on the command line' }),
  );
  return suggestValues(option, choices);
}

/** Values of the options of `tokenizerFlags`. */
export type TokenizerFlagValues = OptionsOf<typeof tokenizerFlags>;

/**
 * Returns the tokenizer that the flags describe; undefined if no flag is given.
 * @throws ConfigurationError MTL_FLAG_NEEDS
 */
export function tokenizerOfFlags(values: TokenizerFlagValues): TokenizerConfiguration | undefined {
  return readTokenizerFlags({
    'tokenizer-type': values.tokenizerType,
    'tokenizer-model': values.tokenizerModel,
    'vocab-file': values.vocabFile,
    'merge-file': values.mergeFile,
    'vocab-size': values.vocabSize,
  });
}
