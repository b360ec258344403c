import { readFileSync } from 'node:fs';
import { DataError } from '@mtl/errors';
import { type Perplexity, perplexity } from '@mtl/inference';
import type { LoadedGpt } from '@mtl/runs';
import { requiredTokenizer } from '../../../command-line/model-flags.js';
import { formatTable } from '../../../terminal/report-text.js';
import { encodeText } from '../encode-text.js';
import type { EvaluationTask } from './evaluation-task.js';

/** The perplexity per word of a WikiText file. It is comparable between models with different tokenizers. */
export interface WikitextResult {
  /** How many words the original file has, as separated by spaces. Megatron-LM uses the same count. */
  readonly numOriginalTokens: number;
  /**
   * How many tokens of the detokenized text were predicted. The first token is not predicted and not counted;
   * if there is a BOS, it is the first token.
   */
  readonly numScored: number;
  readonly negativeLogLikelihood: number;
  /** exp(negativeLogLikelihood / numOriginalTokens): Shoeybi et al. 2019, section 5.3. */
  readonly perplexity: number;
  /**
   * The perplexity as Megatron-LM computes it: the negative log-likelihood is divided by the number of words
   * minus one, because the first token is given, and the result is limited to exp(20).
   */
  readonly adjustedPerplexity: number;
  /**
   * `exp(negativeLogLikelihood / numScored)`: the perplexity per token, which is not comparable between
   * tokenizers.
   */
  readonly tokenPerplexity: number;
}

/** The task `wikitext`, for a WikiText file in its original form, such as wiki.test.tokens. */
export const wikitextTask: EvaluationTask = {
  name: 'wikitext',
  // the stride of Shoeybi et al. 2019
  defaultStride: 32,
  run: async ({ path, loaded, windows, batchSize, onProgress }) => {
    const { numOriginalTokens, tokens } = readWikitext(path, loaded);
    const scored = await perplexity({
      model: loaded.model,
      tokens,
      given: new Set(loaded.tokenizer?.startIds?.keys()),
      window: windows.sequenceLength,
      overlap: windows.sequenceLength - windows.stride,
      batchSize,
      onProgress: ({ numScored, numTokens }) => onProgress(numScored / numTokens),
    });
    const report = computeResult(scored, numOriginalTokens);
    return { report, table: formatResult(report) };
  },
};

function formatResult(result: WikitextResult): string {
  return formatTable([
    ['perplexity', result.perplexity.toFixed(3)],
    ["perplexity by Megatron's code", result.adjustedPerplexity.toFixed(3)],
    ['perplexity a token', result.tokenPerplexity.toFixed(3)],
    ['words of the file', result.numOriginalTokens],
    ['tokens scored', result.numScored],
  ]);
}

function readWikitext(path: string, loaded: LoadedGpt): { numOriginalTokens: number; tokens: Int32Array } {
  const original = readText(path);
  const numOriginalTokens = original.trim().split(' ').length;
  const tokens = Int32Array.from(encodeText(requiredTokenizer(loaded), detokenizeWikitext(original)));
  // two words are needed, because `adjustedPerplexity` divides by the number of words minus one
  if (numOriginalTokens >= 2 && tokens.length >= 2) return { numOriginalTokens, tokens };
  throw new DataError('MTL_EVALUATION_DATA', `${path} has hardly a word`, {
    expected: 'a WikiText file, such as wiki.test.tokens of WikiText-103',
  });
}

function readText(path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(readFileSync(path));
  } catch (cause) {
    throw new DataError('MTL_EVALUATION_DATA', `${path} cannot be read: ${(cause as Error).message}`, {
      expected: 'a text file in UTF-8, such as wiki.test.tokens of WikiText-103',
      cause,
    });
  }
}

function computeResult(
  { numScored, negativeLogLikelihood, perplexity: tokenPerplexity }: Perplexity,
  numOriginalTokens: number,
): WikitextResult {
  return {
    perplexity: Math.exp(negativeLogLikelihood / numOriginalTokens),
    adjustedPerplexity: Math.exp(Math.min(20, negativeLogLikelihood / (numOriginalTokens - 1))),
    tokenPerplexity,
    numOriginalTokens,
    numScored,
    negativeLogLikelihood,
  };
}

/**
 * White space as in Python's `\s`. JavaScript's `\s` also matches byte order marks, and does not match
 * information separators.
 */
const space = '[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]';

const pairs = ['()', '[]', '{}', '""', "''"] as const;

type Rule = readonly [what: string | RegExp, by: string];

/** Replacement rules, in order. Each rule changes the result of the previous rule. */
const rules: readonly Rule[] = [
  ["s '", "s'"],
  // at this position, Megatron-LM has a rule for "' 98" that never applies, so this list does not contain it
  [' @-@ ', '-'],
  [' @,@ ', ','],
  [' @.@ ', '.'],
  ...[':', ';', '.', '!', '?', ','].map((mark): Rule => [` ${mark} `, `${mark} `]),
  ...pairs.map(([left, right]): Rule => {
    const [open, close] = [`\\${left}`, `\\${right}`];
    return [new RegExp(`${open}${space}*([^${close}]*?)${space}*${close}`, 'g'), `${left}$1${right}`];
  }),
  ['= = = =', '===='],
  ['= = =', '==='],
  ['= =', '=='],
  [' \u00b0 ', '\u00b0'],
  [' \n', '\n'],
  ['\n ', '\n'],
  [' N ', ' 1 '],
  [" 's", "'s"],
];

/**
 * Approximately restores the original text of a WikiText file, which has spaces around punctuation. The rules
 * come from Megatron-LM's evaluation, with their errors, so that perplexities can be compared.
 */
export function detokenizeWikitext(text: string): string {
  return rules.reduce((result, [what, by]) => result.replaceAll(what, by), text);
}
