import { setImmediate } from 'node:timers/promises';
import {
  checkOptions,
  functionOption,
  type OptionChecks,
  required,
  wholeNumberOption,
} from '@mtl/errors/options';
import type { CausalLanguageModel } from './causal-language-model.js';
import { checkTokens } from './generate.js';
import { continuationsOption, modelOption } from './option-checks.js';

/** A text and a possible continuation. Both have at least one token. */
export interface Continuation {
  readonly context: ArrayLike<number>;
  readonly target: ArrayLike<number>;
}

export interface ContinuationScoresOptions {
  readonly model: Pick<CausalLanguageModel, 'vocabularySize' | 'maximumContext' | 'tokenLosses'>;
  readonly continuations: readonly Continuation[];
  /** Number of continuations in a batch. Default: 1. */
  readonly batchSize?: number;
  /** This function is called after each batch. */
  onProgress?(progress: { readonly numDone: number; readonly numAll: number }): void;
}

const checks: OptionChecks<ContinuationScoresOptions> = {
  model: modelOption(['tokenLosses']),
  continuations: required(continuationsOption),
  batchSize: wholeNumberOption(1),
  onProgress: functionOption,
};

export interface ContinuationScores {
  /** For each continuation, the natural logarithm of the target's probability after its context. */
  readonly logProbabilities: Float64Array;
  /** How many texts did not fit into the model's context, so that their beginning was cut off. */
  readonly numShortened: number;
}

/**
 * Computes the log-probability of each target as a continuation of its context, which is the sum over the
 * target's tokens. If a text does not fit into the model's context, its beginning is cut off.
 *
 * @throws ConfigurationError MTL_CONTINUATIONS; DataError MTL_TOKENS
 */
export async function continuationScores(options: ContinuationScoresOptions): Promise<ContinuationScores> {
  checkOptions(options, { of: 'continuationScores', code: 'MTL_CONTINUATIONS', checks });
  const { model, continuations, batchSize = 1 } = options;
  const { vocabularySize } = model;
  for (const [index, { context, target }] of continuations.entries()) {
    checkTokens(context, { vocabularySize, what: `the context of continuation ${index}` });
    checkTokens(target, { vocabularySize, what: `the target of continuation ${index}` });
  }
  // texts are sorted by length, so that batches contain little padding
  const countTokens = ({ context, target }: Continuation): number => context.length + target.length;
  const order = [...continuations.keys()].sort(
    (a, b) => countTokens(continuations[b]!) - countTokens(continuations[a]!) || a - b,
  );
  const logProbabilities = new Float64Array(continuations.length);
  let numShortened = 0;
  for (let start = 0; start < order.length; start += batchSize) {
    const batch = order.slice(start, start + batchSize);
    const rows = batch.map((index) => makeRow(continuations[index]!, model.maximumContext));
    numShortened += rows.filter(({ isShortened }) => isShortened).length;
    for (const [row, score] of computeScores(model, rows).entries()) logProbabilities[batch[row]!] = score;
    options.onProgress?.({ numDone: start + batch.length, numAll: order.length });
    await setImmediate();
  }
  return { logProbabilities, numShortened };
}

interface Row {
  readonly tokens: readonly number[];
  /** How many tokens the target has, which is the end of the text. */
  readonly numTarget: number;
  readonly isShortened: boolean;
}

function makeRow({ context, target }: Continuation, maximumContext: number): Row {
  const all = [...Array.from(context), ...Array.from(target)];
  // takes one token more than fits into the context, because the last token is only predicted
  const tokens = all.slice(-(maximumContext + 1));
  const numTarget = Math.min(target.length, tokens.length - 1);
  return { tokens, numTarget, isShortened: tokens.length < all.length };
}

function computeScores(model: ContinuationScoresOptions['model'], rows: readonly Row[]): number[] {
  const length = Math.max(...rows.map(({ tokens }) => tokens.length - 1));
  const [tokens, labels] = [new Int32Array(rows.length * length), new Int32Array(rows.length * length)];
  for (const [row, { tokens: own }] of rows.entries()) {
    tokens.set(own.slice(0, -1), row * length);
    labels.set(own.slice(1), row * length);
  }
  // padding is at the end, where no real token can attend to it
  const losses = model.tokenLosses({ tokens, labels, batchSize: rows.length });
  return rows.map(({ tokens: own, numTarget }, row) => {
    const end = row * length + own.length - 1;
    return -losses.subarray(end - numTarget, end).reduce((sum, loss) => sum + loss, 0);
  });
}
