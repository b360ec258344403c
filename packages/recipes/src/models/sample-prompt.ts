import type { SampleDataset, Tokenizer } from '@mtl/data';
import type { StageBatch } from '@mtl/models';

/** What the text of the bundled corpus often goes on from. */
const promptOfBundledCorpus = 'The people of';
/** Tokens of a prompt that is taken from data. */
const numTokens = 16;

export interface SamplePromptOptions {
  /** --data-path; empty for the bundled corpus. */
  readonly dataPath: readonly string[];
  /** Held-out data if there are any, else what was trained on; undefined where there are none. */
  readonly dataset: Pick<SampleDataset<StageBatch>, 'sample'> | undefined;
  readonly tokenizer: Tokenizer;
}

/**
 * The tokens that a sample of a trained model begins with: a few words for the bundled corpus, else the start
 * of a document of the user's own data, or of its first sample where no document starts in that. Undefined
 * where there is nothing to take.
 */
export function samplePrompt({ dataPath, dataset, tokenizer }: SamplePromptOptions): number[] | undefined {
  if (dataPath.length === 0) return Array.from(tokenizer.encode(promptOfBundledCorpus));
  const tokens = dataset?.sample(0).tokens;
  if (tokens === undefined) return undefined;
  // no more than half of what the model can see
  const count = Math.min(numTokens, Math.ceil(tokens.length / 2));
  let start = tokens.indexOf(tokenizer.eod) + 1;
  while (tokens[start] === tokenizer.eod) start += 1; // documents without text
  const first = start + count <= tokens.length ? start : 0;
  const words = tokens.subarray(first, first + count);
  const end = words.indexOf(tokenizer.eod);
  const prompt = wholeCharacters(Array.from(end < 0 ? words : words.subarray(0, end)), tokenizer);
  return prompt.length === 0 ? undefined : prompt;
}

/** Without what is left of characters whose other bytes are in tokens outside. */
function wholeCharacters(tokens: readonly number[], tokenizer: Tokenizer): number[] {
  const textOf = (from: number, to: number): string => tokenizer.decode(tokens.slice(from, to));
  let [start, end] = [0, tokens.length];
  while (start < end && textOf(start, end).startsWith('\ufffd')) start += 1;
  while (start < end && textOf(start, end).endsWith('\ufffd')) end -= 1;
  return tokens.slice(start, end);
}
