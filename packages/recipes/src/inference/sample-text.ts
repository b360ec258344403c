import type { Tokenizer } from '@mtl/data';
import { generateAll } from '@mtl/inference';
import type { GptLanguageModel } from '@mtl/models';

export interface SampleTextOptions {
  readonly model: GptLanguageModel;
  readonly tokenizer: Tokenizer;
  /** Tokens that it begins with, at least one. */
  readonly prompt: readonly number[];
  readonly maxNewTokens: number;
  readonly seed: number;
}

/**
 * How a text that begins with the prompt goes on, for a first look at what a model has learnt. Prompt
 * included.
 */
export async function sampleText(options: SampleTextOptions): Promise<string> {
  const { model, tokenizer, prompt, seed } = options;
  const maxNewTokens = Math.max(1, Math.min(options.maxNewTokens, model.maximumContext - prompt.length));
  const [sample] = await generateAll({
    model,
    prompts: [prompt],
    maxNewTokens,
    sampling: { temperature: 0.8, topP: 0.95 },
    seed,
    stopTokens: [tokenizer.eod],
  });
  const words = sample!.tokens.filter((token) => token !== tokenizer.eod);
  return tokenizer.decode([...prompt, ...words]);
}
