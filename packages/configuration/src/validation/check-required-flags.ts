import { ConfigurationError, listedNames } from '@mtl/errors';
import type { ModelKind } from '../architecture/architecture-field.js';
import { architectureFlagNames } from '../architecture/list-fields.js';
import { bundledCorpus } from '../flags/data-flags.js';
import { findPresets } from '../presets/presets.js';
import { type FlagName, tokenizerFlagNames } from '../schema/flag-schema.js';
import type { FlagReader } from './flag-reader.js';

/** Flags of tokenizers that suit each kind of model, for advice in errors. */
export const tokenizerAdvice: Readonly<Record<ModelKind, string>> = {
  gpt: '--tokenizer-type GPT2BPETokenizer, or HuggingFaceTokenizer with --tokenizer-model',
  bert: '--tokenizer-type BertWordPieceLowerCase or BertWordPieceCase with --vocab-file vocab.txt',
};

/** Required flags that presets leave out, because their values can be derived from other flags. */
const followFromOthers: readonly FlagName[] = architectureFlagNames(
  ({ isRequired, otherwise }) => isRequired === true && otherwise !== undefined,
);

/** The flags that Megatron-LM requires for every training run, except flags for length and data. */
const required: readonly FlagName[] = [
  ...architectureFlagNames(({ isRequired, otherwise }) => isRequired === true && otherwise === undefined),
  'seq-length',
  ...followFromOthers,
  'micro-batch-size',
  'lr',
];

export interface CheckRequiredFlagsOptions {
  /** The preset in use, or `none`. */
  readonly preset: string;
  /** The words of the command line, for the remedy. */
  readonly argv: readonly string[];
  /** Missing flags that the caller has already found, and that the error must also name. */
  readonly alsoMissing?: readonly string[];
}

/**
 * Returns the required flags that neither command line, preset, file nor checkpoint gives. An alternative
 * flag is named in parentheses: `--train-iters (or --train-samples)`.
 *
 * @param preset the preset in use, or `none`
 */
export function missingFlags(flags: FlagReader, preset: string): readonly string[] {
  const has = (name: FlagName): boolean => flags.get(name) !== undefined;
  // with a preset, the number of position embeddings defaults to the sequence length
  const followsFromPreset = (name: FlagName): boolean => preset !== 'none' && followFromOthers.includes(name);
  const missing = required.filter((name) => !has(name) && !followsFromPreset(name));
  const names: string[] = missing.map((name) => `--${name}`);
  if (!has('train-iters') && !has('train-samples') && !(has('epochs') && has('train-data')))
    names.push('--train-iters (or --train-samples)');
  const hasData = has('data-path') || has('train-data') || flags.get('mock-data') === true;
  if (!hasData) names.push('--data-path');
  const isBundled = flags.get('data-path')?.join() === bundledCorpus && flags.get('mock-data') !== true;
  if (!isBundled && !tokenizerFlagNames.some(has)) names.push('--tokenizer-type');
  return names;
}

/**
 * Rejects flags if a required flag is missing on the command line, and in preset, file and checkpoint.
 *
 * @throws ConfigurationError `MTL_FLAG_REQUIRED`, which names all missing flags
 */
export function checkRequiredFlags(
  flags: FlagReader,
  { preset, argv, alsoMissing = [] }: CheckRequiredFlagsOptions,
): void {
  const missing = missingFlags(flags, preset);
  if (missing.length === 0) return;
  const names = [...alsoMissing, ...missing];
  const hasData = !missing.includes('--data-path');
  const needsTokenizer = missing.includes('--tokenizer-type');
  const { model } = flags;
  const isMock = flags.get('mock-data') === true;
  const tokenizer = isMock
    ? '--tokenizer-type NullTokenizer --vocab-size N, or any other tokenizer'
    : tokenizerAdvice[model];
  throw new ConfigurationError(
    'MTL_FLAG_REQUIRED',
    `${listedNames(names)} ${names.length === 1 ? 'is' : 'are'} missing`,
    {
      ...describeExpectation(
        isMock
          ? `a tokenizer for --mock-data: ${tokenizer}`
          : flags.get('train-data') === undefined
            ? `the tokenizer that the dataset was made with: ${tokenizer}`
            : `the tokenizer of the model that is fine-tuned: --load-hf DIR, --load DIR, or ${tokenizer}`,
        { hasData, needsTokenizer },
      ),
      remedy:
        preset === 'none' && names.some((name) => name !== '--tokenizer-type')
          ? `${writeRemedy(model, argv)}${hasData && needsTokenizer ? ' --tokenizer-type NAME' : ''}`
          : needsTokenizer
            ? `pass ${tokenizer}`
            : 'pass --data-path PREFIX',
      details: { flags: names, preset },
    },
  );
}

function describeExpectation(
  tokenizer: string,
  { hasData, needsTokenizer }: { readonly hasData: boolean; readonly needsTokenizer: boolean },
): { readonly expected: string } | Record<string, never> {
  const data = `--data-path PREFIX of a dataset, or --data-path ${bundledCorpus} for the bundled corpus`;
  const parts = [...(hasData ? [] : [data]), ...(needsTokenizer && hasData ? [tokenizer] : [])];
  return parts.length === 0 ? {} : { expected: parts.join('; ') };
}

/** Returns the command line with a preset added that supplies the missing flags. */
function writeRemedy(model: ModelKind, argv: readonly string[]): string {
  const words = withoutPreset(argv).map(quoted);
  const line = ['--preset', findPresets(model).whenNothingIsAsked, ...words].join(' ');
  return `pass them, or take them from a preset: ${line}`;
}

function withoutPreset(argv: readonly string[]): readonly string[] {
  return argv.filter((word, at) => !/^--preset(=|$)/.test(word) && argv[at - 1] !== '--preset');
}

/** Quotes a word for a shell. */
const quoted = (word: string): string =>
  /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
