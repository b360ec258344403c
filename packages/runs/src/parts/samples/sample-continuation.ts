import { generateAll, type Sampling } from '@mtl/inference';
import type { GptLanguageModel } from '@mtl/models';
import type { Tokenizer } from '@mtl/tokenizers';

/** A sample of a model's output, as an impression of the model's knowledge. */
export interface ModelSample {
  /** The title of the sample, such as `A sample`. */
  readonly label: string;
  /** The text to print: the label, then the prompt with the model's output. */
  readonly text: string;
  /** The prompt, if the model is a GPT. A conversation has one line for each message. */
  readonly prompt?: string;
  /** The complete output. `text` may contain only its first sentences. */
  readonly completion?: string;
}

interface SampleContinuationOptions {
  readonly model: GptLanguageModel;
  readonly tokenizer: Tokenizer;
  /** Tokens of the prompt; not empty. */
  readonly prompt: readonly number[];
  readonly maxNewTokens: number;
  readonly seed: number;
  /** Tokens that end the continuation without being part of it. Default: the end of a document. */
  readonly stopTokens?: readonly number[] | undefined;
}

/** A generated continuation. */
interface SampledContinuation {
  readonly tokens: readonly number[];
  /** True if the model generated a stop token. False if the continuation reached the maximum length. */
  readonly isEnded: boolean;
}

/** Continues a prompt, as a first impression of what a model has learned. */
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

/** The default sampling for continuations, at the end of a run and in `mtl generate`. */
export const defaultSampling = { temperature: 0.8, topP: 0.95 } as const satisfies Sampling;
