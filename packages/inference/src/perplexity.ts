import { setImmediate } from 'node:timers/promises';
import { ConfigurationError, DataError, MtlError } from '@mtl/errors';
import {
  checkOptions,
  functionOption,
  type OptionChecks,
  optionThat,
  required,
  wholeNumberOption,
} from '@mtl/errors/options';
import type { CausalLanguageModel } from './causal-language-model.js';
import { checkTokens } from './generate.js';
import { modelOption, signalOption, tokensOption } from './option-checks.js';

export interface PerplexityOptions {
  readonly model: Pick<CausalLanguageModel, 'vocabularySize' | 'maximumContext' | 'tokenLosses'>;
  /** The tokens of the whole text. May be a typed array over a memory-mapped file. */
  readonly tokens: ArrayLike<number>;
  /**
   * The indices of tokens that are given and therefore not scored. The first token is always given. Default:
   * only the first token.
   */
  readonly given?: ReadonlySet<number>;
  /** The number of tokens in a window. Default: the length of the model's context. */
  readonly window?: number;
  /**
   * How many tokens at the start of a window the previous window has already scored; in this window, they are
   * only context. Default: 0, which is the fastest, but gives the first tokens of a window little context. If
   * it is window - 1, every token has as much context as possible.
   */
  readonly overlap?: number;
  /** Number of windows in a batch. Default: 1. */
  readonly batchSize?: number;
  readonly signal?: AbortSignal;
  /** Called after each batch of windows. */
  onProgress?(progress: { readonly numScored: number; readonly numTokens: number }): void;
}

const checks: OptionChecks<PerplexityOptions> = {
  model: modelOption(['tokenLosses']),
  tokens: required(tokensOption),
  given: optionThat('a Set of indices', (value) => value instanceof Set),
  window: wholeNumberOption(1),
  overlap: wholeNumberOption(0),
  batchSize: wholeNumberOption(1, 2 ** 20),
  signal: signalOption,
  onProgress: functionOption,
};

export interface Perplexity {
  /** How many tokens were scored: all tokens except the tokens in `given`. */
  readonly numScored: number;
  /** The sum of the negative natural logarithms of the scored tokens' probabilities. */
  readonly negativeLogLikelihood: number;
  /** The mean of the negative log-likelihood over the scored tokens, in nats per token. */
  readonly loss: number;
  /** exp(loss). */
  readonly perplexity: number;
}

/**
 * The inputs [start, end) of a window. The label of each input is the next token; labels from `scoredFrom` on
 * are scored.
 */
interface Window {
  readonly start: number;
  readonly end: number;
  readonly scoredFrom: number;
}

/** Returns windows that together score every token of the text, except the first, exactly once. */
function listWindows(numInputs: number, { window, overlap }: { window: number; overlap: number }): Window[] {
  const windows: Window[] = [];
  let scored = 0;
  while (scored < numInputs) {
    const start = scored === 0 ? 0 : scored - overlap;
    const end = Math.min(start + window, numInputs);
    windows.push({ start, end, scoredFrom: scored });
    scored = end;
  }
  return windows;
}

function checkWindows(options: PerplexityOptions): void {
  checkOptions(options, { of: 'perplexity', code: 'MTL_PERPLEXITY', checks });
  const { model, tokens, window = model.maximumContext, overlap = 0 } = options;
  const refuse = (name: string, value: number, expected: string): never => {
    throw new ConfigurationError('MTL_PERPLEXITY', `${name} is ${value}`, { expected });
  };
  if (window > model.maximumContext)
    refuse('window', window, `1 to ${model.maximumContext}, the model's context`);
  if (overlap >= window) refuse('overlap', overlap, `0 to ${window - 1}, less than the window`);
  checkTokens(tokens, { vocabularySize: model.vocabularySize, what: 'the text' });
  if (tokens.length < 2) throw nothingToScore();
}

const nothingToScore = (): DataError =>
  new DataError('MTL_TOKENS', 'the text has no token to score', {
    expected: 'at least two: the first is given',
  });

/** Groups windows into batches whose windows have the same length. Only the last window can be shorter. */
function groupWindows(windows: readonly Window[], batchSize: number): Window[][] {
  const batches: Window[][] = [];
  const length = (one: Window): number => one.end - one.start;
  for (const one of windows) {
    const last = batches.at(-1);
    if (last !== undefined && last.length < batchSize && length(last[0]!) === length(one)) last.push(one);
    else batches.push([one]);
  }
  return batches;
}

/**
 * Computes the perplexity of a text of any length, window by window.
 *
 * @throws ConfigurationError MTL_PERPLEXITY; DataError MTL_TOKENS; MtlError MTL_LOSS_NOT_FINITE; the signal's
 *   reason when aborted
 */
export async function perplexity(options: PerplexityOptions): Promise<Perplexity> {
  checkWindows(options);
  const { model, tokens, window = model.maximumContext, overlap = 0, batchSize = 1, signal } = options;
  const { given = new Set<number>() } = options;
  const numInputs = tokens.length - 1;
  const numTokens = [...given].reduce((count, at) => count - (at > 0 && at <= numInputs ? 1 : 0), numInputs);
  if (numTokens === 0) throw nothingToScore();
  let negativeLogLikelihood = 0;
  let numScored = 0;
  for (const batch of groupWindows(listWindows(numInputs, { window, overlap }), batchSize)) {
    signal?.throwIfAborted();
    const length = batch[0]!.end - batch[0]!.start;
    const inputs = new Int32Array(batch.length * length);
    const labels = new Int32Array(batch.length * length);
    batch.forEach(({ start }, row) => {
      for (let index = 0; index < length; index++) {
        inputs[row * length + index] = tokens[start + index]!;
        labels[row * length + index] = tokens[start + index + 1]!;
      }
    });
    const losses = model.tokenLosses({ tokens: inputs, labels, batchSize: batch.length });
    batch.forEach(({ start, scoredFrom }, row) => {
      for (let index = scoredFrom - start; index < length; index++) {
        if (given.has(start + index + 1)) continue;
        negativeLogLikelihood += losses[row * length + index]!;
        numScored++;
      }
    });
    options.onProgress?.({ numScored, numTokens });
    await setImmediate();
  }
  if (!Number.isFinite(negativeLogLikelihood)) {
    throw new MtlError('MTL_LOSS_NOT_FINITE', `the loss is ${negativeLogLikelihood}`, {
      remedy: 'check the weights; float32 or bfloat16 compute has a wider range than float16',
    });
  }
  const loss = negativeLogLikelihood / numScored;
  return { numScored, negativeLogLikelihood, loss, perplexity: Math.exp(loss) };
}
