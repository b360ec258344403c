import type { Tokenizer } from '@mtl/data';
import { generateAll } from '@mtl/inference';
import { GptLanguageModel, type GptStage } from '@mtl/models';

export interface SampleTextOptions {
  readonly stage: GptStage;
  readonly tokenizer: Tokenizer;
  readonly prompt: string;
  readonly maxNewTokens: number;
  readonly seed: number;
}

/** How a text that begins with the prompt goes on, for a first look at what a model has learnt. Prompt included. */
export async function sampleText(options: SampleTextOptions): Promise<string> {
  const { stage, tokenizer, prompt, seed } = options;
  const tokens = Array.from(tokenizer.encode(prompt));
  const model = new GptLanguageModel(stage);
  const maxNewTokens = Math.max(1, Math.min(options.maxNewTokens, model.maximumContext - tokens.length));
  const [sample] = await generateAll({
    model,
    prompts: [tokens],
    maxNewTokens,
    sampling: { temperature: 0.8, topP: 0.95 },
    seed,
    stopTokens: [tokenizer.eod],
  });
  const words = sample!.tokens.filter((token) => token !== tokenizer.eod);
  return tokenizer.decode([...tokens, ...words]);
}
