import { setImmediate } from 'node:timers/promises';
import { philox, siteKey } from '@mtl/autograd';
import { ConfigurationError, DataError } from '@mtl/errors';
import {
  checkOptions,
  choiceOption,
  listOption,
  type OptionChecks,
  optionThat,
  required,
  switchOption,
  wholeNumberOption,
} from '@mtl/errors/options';
import type { CausalLanguageModel, KeyValueCache } from './causal-language-model.js';
import { modelOption, signalOption, tokensOption } from './option-checks.js';
import { logProbability, type Sampling, sampleToken, samplingOption } from './sampling.js';

export interface GenerateOptions<Cache extends KeyValueCache = KeyValueCache> {
  readonly model: CausalLanguageModel<Cache>;
  /**
   * The token ids of each prompt, which must have at least one token. For an empty text, pass the
   * end-of-document token.
   */
  readonly prompts: readonly ArrayLike<number>[];
  /** The maximum number of tokens to generate for each prompt. */
  readonly maxNewTokens: number;
  readonly sampling?: Sampling;
  /** The seed for the random numbers. The same seed gives the same tokens. Default: 0. */
  readonly seed?: number;
  /**
   * A sample index for each prompt. The prompt's random numbers depend only on this index, the seed and the
   * position. Default: 0, 1, 2 ...
   */
  readonly sampleNumbers?: readonly number[];
  /** Tokens that end a sequence. A stop token is itself yielded before the sequence ends. */
  readonly stopTokens?: readonly number[];
  /**
   * The action when a text fills the model's context. `stop` (default): the text ends, and a prompt that is
   * too long is an error. `slide`: the text continues with the last half of the context, which is computed
   * again because positions change; a prompt that is too long loses its beginning.
   */
  readonly whenContextIsFull?: 'stop' | 'slide';
  /**
   * False to omit each token's log-probability, which requires a sum of exponentials over the vocabulary (0.6
   * ms for 50,304 tokens). Default: true.
   */
  readonly logProbabilities?: boolean;
  /** When this signal is aborted, the iteration throws the signal's reason before the next token. */
  readonly signal?: AbortSignal;
}

/**
 * Why a sequence has ended: a stop token (`stop`), `maxNewTokens` (`length`), or a full context (`context`).
 */
export type FinishReason = 'stop' | 'length' | 'context';

export interface GeneratedToken {
  /** The index of the prompt that the token continues. */
  readonly sequence: number;
  readonly token: number;
  /**
   * The natural logarithm of the token's probability under the model, before temperature, top-k and top-p.
   * Undefined if the option `logProbabilities` is false.
   */
  readonly logProbability: number | undefined;
  /** Why the sequence has ended. Undefined except for the last token of a sequence. */
  readonly finishReason: FinishReason | undefined;
}

interface Running {
  readonly sequence: number;
  readonly sampleNumber: number;
  /** All tokens so far, beginning with the prompt. */
  readonly tokens: number[];
  readonly promptLength: number;
  /** The tokens that are not yet in the cache. */
  pending: Int32Array;
}

const checks: OptionChecks<GenerateOptions> = {
  model: modelOption(['newCache', 'forward']),
  prompts: required(listOption(tokensOption, { what: 'an array of prompts, each of token ids' })),
  maxNewTokens: required(wholeNumberOption(1)),
  sampling: samplingOption,
  seed: optionThat('a whole number', Number.isSafeInteger),
  sampleNumbers: listOption(wholeNumberOption(0), { what: 'an array of whole numbers' }),
  stopTokens: listOption(wholeNumberOption(0), { what: 'an array of token ids' }),
  whenContextIsFull: choiceOption(['stop', 'slide']),
  logProbabilities: switchOption,
  signal: signalOption,
};

/** Checks the options of `generate`. @throws the errors of `generate` */
export function checkGenerateOptions(options: GenerateOptions): void {
  checkOptions(options, { of: 'generate', code: 'MTL_GENERATE', checks });
  const { model, prompts, sampleNumbers, whenContextIsFull = 'stop' } = options;
  if (sampleNumbers !== undefined && sampleNumbers.length !== prompts.length) {
    throw new ConfigurationError(
      'MTL_GENERATE',
      `${sampleNumbers.length} sample numbers for ${prompts.length} prompts`,
    );
  }
  prompts.forEach((prompt, index) => {
    checkTokens(prompt, { vocabularySize: model.vocabularySize, what: `prompt ${index}` });
    if (prompt.length > model.maximumContext && whenContextIsFull === 'stop') {
      throw new DataError('MTL_CONTEXT', `prompt ${index} has ${prompt.length} tokens`, {
        expected: `at most ${model.maximumContext}, the model's context`,
        remedy: 'shorten it, or let the context slide',
      });
    }
  });
}

/** Rejects an empty list of tokens, and ids that are not in the vocabulary. */
export function checkTokens(
  tokens: ArrayLike<number>,
  { vocabularySize, what }: { vocabularySize: number; what: string },
): void {
  if (tokens.length === 0) {
    throw new DataError('MTL_TOKENS', `${what} has no tokens`, {
      expected: 'at least one; an empty text begins with the end-of-document token',
    });
  }
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index]!;
    if (Number.isSafeInteger(token) && token >= 0 && token < vocabularySize) continue;
    throw new DataError('MTL_TOKENS', `token ${index} of ${what} is ${token}`, {
      expected: `a token id from 0 to ${vocabularySize - 1}`,
      remedy: "use the model's tokenizer",
    });
  }
}

/**
 * Continues prompts token by token. Each step computes all unfinished sequences, and every token is yielded
 * as soon as it is chosen. Equal prompts are computed only once. A sequence's result does not depend on the
 * other sequences, except for rounding in common matmuls. Random numbers are Philox 4x32-10 with the key
 * (seed, `generation.sampling`) and the counter (sample index, position).
 *
 * @throws ConfigurationError MTL_GENERATE, MTL_SAMPLING; DataError MTL_CONTEXT, MTL_TOKENS; MtlError
 *   MTL_LOGITS_NOT_FINITE; the signal's reason when aborted
 */
export async function* generate<Cache extends KeyValueCache>(
  options: GenerateOptions<Cache>,
): AsyncGenerator<GeneratedToken, void, undefined> {
  checkGenerateOptions(options);
  const { model, prompts, maxNewTokens, sampling = {}, seed = 0, logProbabilities = true, signal } = options;
  if (prompts.length === 0) return;
  const stopTokens = new Set(options.stopTokens);
  const key = siteKey(seed, 'generation.sampling');
  const slides = options.whenContextIsFull === 'slide';
  let running: readonly Running[] = prompts.map((prompt, sequence): Running => {
    const tokens = Array.from(prompt);
    const tooLong = tokens.length > model.maximumContext;
    return {
      sequence,
      sampleNumber: options.sampleNumbers?.[sequence] ?? sequence,
      tokens,
      promptLength: tokens.length,
      pending: Int32Array.from(tooLong ? lastHalf(model, tokens) : tokens),
    };
  });
  const longest = Math.max(...prompts.map((prompt) => prompt.length)) + maxNewTokens;
  const cache = model.newCache({
    batchSize: prompts.length,
    capacity: Math.min(longest, model.maximumContext),
  });
  try {
    let computed = cache.copySequence === undefined ? running : firstOfEqualTexts(running);
    while (running.length > 0) {
      signal?.throwIfAborted();
      const rows = [...new Set(computed)];
      const sequences = rows.map(({ sequence, pending }) => ({ slot: sequence, tokens: pending }));
      const logits = model.forward({ cache, sequences });
      const next: Running[] = [];
      for (const [index, one] of running.entries()) {
        const { sequence: from } = computed[index]!;
        if (from !== one.sequence) cache.copySequence?.({ from, to: one.sequence });
      }
      for (const [index, one] of running.entries()) {
        const row = rows.indexOf(computed[index]!);
        const own = logits.subarray(row * model.vocabularySize, (row + 1) * model.vocabularySize);
        const token = sampleToken(own, sampling, drawUniform(key, one));
        one.tokens.push(token);
        one.pending = Int32Array.of(token);
        const finishReason = findFinishReason(token, one, cache);
        if (finishReason === undefined) next.push(one);
        yield {
          sequence: one.sequence,
          token,
          logProbability: logProbabilities ? logProbability(own, token) : undefined,
          finishReason,
        };
      }
      running = next;
      computed = next;
      // lets signals, timers and metrics run
      await setImmediate();
    }
  } finally {
    cache.dispose();
  }

  function findFinishReason(token: number, one: Running, { lengths }: Cache): FinishReason | undefined {
    if (stopTokens.has(token)) return 'stop';
    if (one.tokens.length - one.promptLength === maxNewTokens) return 'length';
    if (lengths[one.sequence]! < model.maximumContext) return undefined;
    if (!slides) return 'context';
    lengths[one.sequence] = 0;
    one.pending = Int32Array.from(lastHalf(model, one.tokens));
    return undefined;
  }
}

/** For each sequence, returns the first sequence that has the same tokens. */
function firstOfEqualTexts(sequences: readonly Running[]): readonly Running[] {
  const first = new Map<string, Running>();
  return sequences.map((one) => {
    const text = one.pending.join();
    if (!first.has(text)) first.set(text, one);
    return first.get(text)!;
  });
}

/**
 * Returns how many of the last tokens are kept when a text fills a sliding context, or when its prompt is
 * longer than the context.
 */
export const numTokensKept = (maximumContext: number): number => Math.ceil(maximumContext / 2);

function lastHalf(
  { maximumContext }: { maximumContext: number },
  tokens: readonly number[],
): readonly number[] {
  return tokens.slice(-numTokensKept(maximumContext));
}

/** Returns a random number in [0, 1), with 32 random bits, for the next token of a sequence. */
function drawUniform(key: readonly [number, number], { sampleNumber, tokens }: Running): number {
  const [word] = philox(key, [sampleNumber >>> 0, Math.floor(sampleNumber / 2 ** 32), tokens.length, 0]);
  return word / 2 ** 32;
}
