import { generateAll, type Sampling } from '@mtl/inference';
import type { GptLanguageModel } from '@mtl/models';
import type { Tokenizer } from '@mtl/tokenizers';

/** A sample of what a model has learned. */
export interface ModelSample {
  /** Name of the sample, such as `A sample`. */
  readonly label: string;
  /** Text for users: the label, and below it the output of the model with its prompt. */
  readonly text: string;
  /** The prompt of a GPT; in a conversation a line for each message. */
  readonly prompt?: string;
  /** The complete output; `text` may end at the last whole sentence before. */
  readonly completion?: string;
}

interface SampleContinuationOptions {
  readonly model: GptLanguageModel;
  readonly tokenizer: Tokenizer;
  /** Tokens of the prompt, at least one. */
  readonly prompt: readonly number[];
  readonly maxNewTokens: number;
  readonly seed: number;
  /** Tokens that end the continuation; they are left out. Default: the end of a document. */
  readonly stopTokens?: readonly number[] | undefined;
}

/** A generated continuation. */
interface SampledContinuation {
  readonly tokens: readonly number[];
  /** True if the model ended it; otherwise it has the maximum number of tokens. */
  readonly isEnded: boolean;
}

/** Continues a text that begins with the prompt, for a first look at what a model has learned. */
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

/** The default sampling for continuations: at the end of a run, and in `mtl generate`. */
export const defaultSampling = { temperature: 0.8, topP: 0.95 } as const satisfies Sampling;
