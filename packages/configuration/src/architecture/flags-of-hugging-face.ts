import type { TokenizerOptions } from '@mtl/data';
import type { FlagName, Flags } from '../flags/flag-schema.js';
import type { LoadedFlags } from '../flags/loaded-flags.js';
import { tokenizerFlagsOf } from '../saved/tokenizer-flags-of.js';
import type { ArchitectureField } from './architecture-field.js';
import { architectureFlags, type KindOfModel } from './architecture-flags.js';
import { fieldsOf } from './fields-of.js';
import { rotaryAlternatives } from './rotary-alternatives.js';

export interface FlagsOfHuggingFaceOptions extends KindOfModel {
  readonly directory: string;
  /** Undefined where the user names one, or the directory has none. */
  readonly tokenizer: TokenizerOptions | undefined;
}

/**
 * What a Hugging Face directory gives for the flags of a run, and which of them it fixes: another value is
 * refused (`withLoadedFlags`).
 */
export function flagsOfHuggingFace(options: FlagsOfHuggingFaceOptions): LoadedFlags {
  const { directory, kind, model, tokenizer } = options;
  const ofModel = architectureFlags({ kind, model });
  const fields = fieldsOf(kind).filter(([name, { decides }]) => decides !== 'padding' && name in ofModel);
  const values = Object.fromEntries(fields.map(([name]) => [name, ofModel[name]])) as Flags;
  const fixed = (decides: string): readonly FlagName[] =>
    fields
      .filter(([name, field]) => field.decides === decides && !isReplaceable(field, values[name]))
      .map(([name]) => name);
  return {
    source: `Hugging Face directory ${directory}`,
    values: {
      ...values,
      'seq-length': model.maxPositionEmbeddings,
      ...(tokenizer === undefined ? {} : tokenizerFlagsOf(tokenizer)),
    },
    fixed: [...fixed('weights'), ...fixed('learning')],
    alternatives: rotaryAlternatives(options),
    ...(tokenizer === undefined ? {} : { tokenizer }),
    vocabularySize: model.vocabularySize,
  };
}

const isReplaceable = ({ replaceable, isReplaceable }: ArchitectureField, value: unknown): boolean =>
  isReplaceable === true || (replaceable !== undefined && replaceable === value);
