import { type SampleContinuationOptions, sampleContinuation } from './sample-continuation.js';

export type SampleTextOptions = SampleContinuationOptions;

/**
 * How a text that begins with the prompt goes on, for a first look at what a model has learnt. Prompt
 * included.
 */
export async function sampleText(options: SampleTextOptions): Promise<string> {
  const { tokens } = await sampleContinuation(options);
  return options.tokenizer.decode([...options.prompt, ...tokens]);
}
