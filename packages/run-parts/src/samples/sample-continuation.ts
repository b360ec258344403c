import type { Tokenizer } from '@mtl/data';
import { generateAll } from '@mtl/inference';
import type { GptLanguageModel } from '@mtl/models';
import { defaultSampling } from './default-sampling.js';

export interface SampleContinuationOptions {
  readonly model: GptLanguageModel;
  readonly tokenizer: Tokenizer;
  /** Tokens that it begins with, at least one. */
  readonly prompt: readonly number[];
  readonly maxNewTokens: number;
  readonly seed: number;
  /** Tokens that end it, which are left out. Default: the end of a document. */
  readonly stopTokens?: readonly number[] | undefined;
}

/** What was generated. */
export interface SampledContinuation {
  readonly tokens: readonly number[];
  /** Whether the model ended it; else it has the most tokens allowed. */
  readonly isEnded: boolean;
}

/** How a text that begins with the prompt goes on, for a first look at what a model has learnt. */
export async function sampleContinuation(options: SampleContinuationOptions): Promise<SampledContinuation> {
  const { model, tokenizer, prompt, seed, stopTokens = [tokenizer.eod] } = options;
  const maxNewTokens = Math.max(1, Math.min(options.maxNewTokens, model.maximumContext - prompt.length));
  const [sample] = await generateAll({
    model,
    prompts: [prompt],
    maxNewTokens,
    sampling: defaultSampling,
    seed,
    stopTokens,
  });
  const { tokens, finishReason } = sample!;
  return { tokens: tokens.filter((token) => !stopTokens.includes(token)), isEnded: finishReason === 'stop' };
}
