import { setImmediate } from 'node:timers/promises';
import { ConfigurationError } from '@mtl/errors';
import {
  checkOptions,
  functionOption,
  type OptionChecks,
  required,
  wholeNumberOption,
} from '@mtl/errors/options';
import type { CausalLanguageModel, KeyValueCache } from './causal-language-model.js';
import { checkTokens } from './generate.js';
import { continuationsOption, modelOption, signalOption } from './option-checks.js';
import { sampleToken } from './sampling.js';

/** A text whose end the model must predict. Both the context and the target have at least one token. */
export interface ClozeExample {
  readonly context: ArrayLike<number>;
  readonly target: ArrayLike<number>;
}

export interface ClozeAccuracyOptions<Cache extends KeyValueCache = KeyValueCache> {
  readonly model: Pick<
    CausalLanguageModel<Cache>,
    'vocabularySize' | 'maximumContext' | 'newCache' | 'forward'
  >;
  readonly examples: readonly ClozeExample[];
  /** Number of texts in a batch. Default: 1. */
  readonly batchSize?: number;
  readonly signal?: AbortSignal;
  /** This function is called after each batch. */
  onProgress?(progress: { readonly numDone: number; readonly numExamples: number }): void;
}

const checks: OptionChecks<ClozeAccuracyOptions> = {
  model: modelOption(['newCache', 'forward']),
  examples: required(continuationsOption),
  batchSize: wholeNumberOption(1),
  signal: signalOption,
  onProgress: functionOption,
};

export interface ClozeAccuracy {
  readonly numExamples: number;
  readonly numCorrect: number;
  /** The fraction numCorrect / numExamples. */
  readonly accuracy: number;
  /** How many texts did not fit into the model's context, so that their beginning was cut off. */
  readonly numShortened: number;
  /** True for each example that was predicted correctly, in the order of the examples. */
  readonly correct: readonly boolean[];
}

/**
 * Measures how often a model predicts the end of a text. Every token of the target must be the most probable
 * token after the preceding tokens (Paperno et al. 2016; strict, as in Shoeybi et al. 2019, section 5.3). If
 * a text does not fit into the context, its beginning is cut off.
 *
 * @throws ConfigurationError MTL_CLOZE; DataError MTL_TOKENS; MtlError MTL_LOGITS_NOT_FINITE; the signal's
 *   reason when aborted
 */
export async function clozeAccuracy<Cache extends KeyValueCache>(
  options: ClozeAccuracyOptions<Cache>,
): Promise<ClozeAccuracy> {
  checkExamples(options);
  const { model, examples, batchSize = 1, signal } = options;
  let numShortened = 0;
  const correct: boolean[] = [];
  for (let start = 0; start < examples.length; start += batchSize) {
    signal?.throwIfAborted();
    const batch = examples.slice(start, start + batchSize).map(({ context, target }) => {
      // the last token of the target is only predicted and is never an input, so the context need not have
      // room for it
      const numKept = model.maximumContext - (target.length - 1);
      if (context.length > numKept) numShortened += 1;
      return { context: Int32Array.from(context).slice(-numKept), target: Int32Array.from(target) };
    });
    correct.push(...guessBatch(model, batch));
    options.onProgress?.({ numDone: correct.length, numExamples: examples.length });
    await setImmediate();
  }
  const numCorrect = correct.filter((one) => one).length;
  const numExamples = examples.length;
  return { numExamples, numCorrect, accuracy: numCorrect / numExamples, numShortened, correct };
}

function checkExamples(options: ClozeAccuracyOptions): void {
  checkOptions(options, { of: 'clozeAccuracy', code: 'MTL_CLOZE', checks });
  const { model, examples } = options;
  const { maximumContext } = model;
  if (examples.length === 0) throw new ConfigurationError('MTL_CLOZE', 'there are no examples');
  const { vocabularySize } = model;
  examples.forEach(({ context, target }, index) => {
    checkTokens(context, { vocabularySize, what: `the context of example ${index}` });
    checkTokens(target, { vocabularySize, what: `the target of example ${index}` });
    if (target.length <= maximumContext) return;
    throw new ConfigurationError('MTL_CLOZE', `the target of example ${index} has ${target.length} tokens`, {
      expected: `at most ${maximumContext}, the model's context`,
    });
  });
}

/** Returns true for each target that the model predicts. A text leaves the batch at its first wrong token. */
function guessBatch<Cache extends KeyValueCache>(
  model: ClozeAccuracyOptions<Cache>['model'],
  batch: ReadonlyArray<{ readonly context: Int32Array; readonly target: Int32Array }>,
): boolean[] {
  const capacity = Math.max(...batch.map(({ context, target }) => context.length + target.length - 1));
  const cache = model.newCache({ batchSize: batch.length, capacity });
  const correct = batch.map(() => false);
  try {
    let sequences = batch.map(({ context }, slot) => ({ slot, tokens: context }));
    for (let step = 0; sequences.length > 0; step++) {
      const logits = model.forward({ cache, sequences });
      const next: typeof sequences = [];
      sequences.forEach(({ slot }, row) => {
        const { target } = batch[slot]!;
        const own = logits.subarray(row * model.vocabularySize, (row + 1) * model.vocabularySize);
        if (sampleToken(own, { temperature: 0 }, 0) !== target[step]) return;
        if (step === target.length - 1) correct[slot] = true;
        else next.push({ slot, tokens: target.subarray(step, step + 1) });
      });
      sequences = next;
    }
    return correct;
  } finally {
    cache.dispose();
  }
}
