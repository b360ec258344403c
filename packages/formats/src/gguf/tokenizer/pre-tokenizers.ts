/** The settings of a tokenizer.json that decide how texts are split before byte pairs are merged. */
export interface Splitting {
  readonly preTokenizer: unknown;
  /** True if a word that is itself a token is used directly, without applying merges. */
  readonly ignoresMerges: boolean;
  readonly hasMerges: boolean;
}

/** A llama.cpp pre-tokenizer. `name` is the value of `tokenizer.ggml.pre`. */
interface Known {
  readonly name: string;
  readonly pattern: string;
  readonly ignoresMerges?: true;
}

/** Represents GPT-2's pattern, which a `ByteLevel` component implies. */
const gpt2 = 'ByteLevel';
const digitsThenGpt2 = 'Digits, ByteLevel';

const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const rest = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const words = String.raw`[^\r\n\p{L}\p{N}]?\p{L}+`;

const upToThreeDigits = String.raw`${contractions}|${words}|\p{N}{1,3}|${rest}`;
const oneDigit = String.raw`${contractions}|${words}|\p{N}|${rest}`;

const ofCase = String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`;
const lowerCase = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`;
const gpt4o = [
  `${ofCase}*${lowerCase}+${contractions}?`,
  `${ofCase}+${lowerCase}*${contractions}?`,
  String.raw`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
].join('|');

/** llama.cpp's pre-tokenizers. If several entries match, the first is chosen. */
const known: readonly Known[] = [
  { name: 'gpt-2', pattern: gpt2 },
  { name: 'smollm', pattern: digitsThenGpt2 },
  { name: 'llama-bpe', pattern: upToThreeDigits, ignoresMerges: true },
  { name: 'smaug-bpe', pattern: upToThreeDigits },
  { name: 'qwen2', pattern: oneDigit },
  { name: 'gpt-4o', pattern: gpt4o },
];

/**
 * The pre-tokenizer's name for tokenizers without merges, whose tokens do not depend on how texts are split.
 */
const anySplitting = 'qwen2';

type Component = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Component =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Returns the pattern of a pre-tokenizer, or undefined if one of its components has no equivalent pattern.
 */
function findPattern(preTokenizer: unknown): string | undefined {
  if (!isObject(preTokenizer)) return undefined;
  const parts = preTokenizer.type === 'Sequence' ? preTokenizer.pretokenizers : [preTokenizer];
  if (!Array.isArray(parts)) return undefined;
  const patterns = parts.map((part) => (isObject(part) ? patternOfPart(part) : undefined));
  if (patterns.includes(undefined)) return undefined;
  return patterns.filter((pattern) => pattern !== '').join(', ');
}

function patternOfPart(part: Component): string | undefined {
  switch (part.type) {
    case 'ByteLevel':
      if (part.add_prefix_space === true) return undefined;
      return part.use_regex === false ? '' : gpt2;
    case 'Digits':
      return part.individual_digits === true ? 'Digits' : undefined;
    case 'Split': {
      const { pattern, behavior, invert } = part;
      const isPlain =
        (behavior === 'Isolated' && invert !== true) || (behavior === 'Removed' && invert === true);
      return isPlain && isObject(pattern) && typeof pattern.Regex === 'string' ? pattern.Regex : undefined;
    }
    default:
      return undefined;
  }
}

/**
 * The result of a search for a pre-tokenizer: llama.cpp's name, or a description of a pre-tokenizer that
 * llama.cpp lacks.
 */
export type FoundPreTokenizer = { readonly name: string } | { readonly unknown: string };

/** Returns llama.cpp's name of a pre-tokenizer. */
export function findPreTokenizer({ preTokenizer, ignoresMerges, hasMerges }: Splitting): FoundPreTokenizer {
  const pattern = findPattern(preTokenizer);
  if (pattern !== undefined && !hasMerges) return { name: anySplitting };
  const found = known.find(
    (one) => one.pattern === pattern && (one.ignoresMerges ?? false) === ignoresMerges,
  );
  if (found !== undefined) return { name: found.name };
  const described = pattern ?? JSON.stringify(preTokenizer ?? null);
  return { unknown: `${described}${ignoresMerges ? ' with ignore_merges' : ''}` };
}

/** The names of known pre-tokenizers, for messages. */
export const preTokenizerNames: readonly string[] = known.map(({ name }) => name);

/**
 * Returns the tokenizer.json components that are equivalent to llama.cpp's pre-tokenizer `name`, or undefined
 * for an unknown name.
 */
export function makePreTokenizer(
  name: string,
): { preTokenizer: unknown; ignoresMerges: boolean } | undefined {
  const found = known.find((one) => one.name === name);
  if (found === undefined) return undefined;
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true };
  const { pattern, ignoresMerges = false } = found;
  if (pattern === gpt2) return { preTokenizer: { ...byteLevel, use_regex: true }, ignoresMerges };
  const first =
    pattern === digitsThenGpt2
      ? { type: 'Digits', individual_digits: true }
      : { type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false };
  const last = { ...byteLevel, use_regex: pattern === digitsThenGpt2 };
  return { preTokenizer: { type: 'Sequence', pretokenizers: [first, last] }, ignoresMerges };
}
