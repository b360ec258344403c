import { GptLanguageModel, type GptStage, type PipelinedGpt } from '@mtl/models';

export interface LanguageModelResult {
  /** Logits after each call: a prompt of two sequences, then a token at a time. */
  readonly logits: readonly Float32Array[];
  /** The most probable tokens that were appended. */
  readonly tokens: readonly number[];
  /** Losses of a text whose length is not divisible by 2. */
  readonly losses: Float32Array;
}

/** Generates greedily for two sequences at once, and scores a text. */
export function useLanguageModel(gpt: GptStage | PipelinedGpt): LanguageModelResult {
  const model = new GptLanguageModel(gpt);
  const cache = model.newCache({ batchSize: 2, capacity: 12 });
  const prompts = [Int32Array.of(3, 1, 4, 1, 5), Int32Array.of(2, 7)];
  const logits = [model.forward({ cache, sequences: prompts.map((tokens, slot) => ({ slot, tokens })) })];
  const tokens: number[] = [];
  for (let step = 0; step < 5; step++) {
    const chosen = [0, 1].map((slot) => mostProbable(logits.at(-1)!, slot, model.vocabularySize));
    tokens.push(...chosen);
    logits.push(
      model.forward({
        cache,
        sequences: chosen.map((token, slot) => ({ slot, tokens: Int32Array.of(token) })),
      }),
    );
  }
  cache.dispose();
  const text = Int32Array.of(9, 20, 33, 89, 0, 17, 41);
  const losses = model.tokenLosses({ tokens: text, labels: text.toReversed(), batchSize: 1 });
  return { logits, tokens, losses };
}

function mostProbable(logits: Float32Array, row: number, vocabularySize: number): number {
  const values = logits.subarray(row * vocabularySize, (row + 1) * vocabularySize);
  return values.indexOf(values.reduce((a, b) => Math.max(a, b)));
}
