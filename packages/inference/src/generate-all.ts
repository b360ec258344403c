import type { KeyValueCache } from './causal-language-model.js';
import { checkGenerateOptions, type FinishReason, type GenerateOptions, generate } from './generate.js';

export interface GeneratedSequence {
  /** The generated tokens, without the prompt. */
  readonly tokens: readonly number[];
  /**
   * The natural logarithms of the tokens' probabilities under the model. Empty if the option
   * `logProbabilities` is false.
   */
  readonly logProbabilities: readonly number[];
  readonly finishReason: FinishReason;
}

/** Runs `generate` until all sequences have ended. Returns one result for each prompt, in order. */
export async function generateAll<Cache extends KeyValueCache>(
  options: GenerateOptions<Cache>,
): Promise<GeneratedSequence[]> {
  checkGenerateOptions(options);
  const sequences = options.prompts.map(() => ({
    tokens: [] as number[],
    logProbabilities: [] as number[],
    finishReason: 'length' as FinishReason,
  }));
  for await (const { sequence, token, logProbability, finishReason } of generate(options)) {
    const one = sequences[sequence]!;
    one.tokens.push(token);
    if (logProbability !== undefined) one.logProbabilities.push(logProbability);
    if (finishReason !== undefined) one.finishReason = finishReason;
  }
  return sequences;
}
