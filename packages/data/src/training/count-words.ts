/** Texts to learn from: an array, a generator, or a stream such as `readDocuments`. */
export type TrainingTexts = Iterable<string> | AsyncIterable<string>;

/** Progress of the training of a tokenizer. */
export type TrainingProgress =
  | { readonly stage: 'counting'; readonly texts: number; readonly words: number }
  | { readonly stage: 'merging'; readonly symbols: number; readonly vocabularySize: number };

/** How often each word occurs; memory grows with the number of different words, not with the text. */
export async function countWords(options: {
  readonly texts: TrainingTexts;
  readonly split: (text: string) => Iterable<string>;
  readonly onProgress?: ((progress: TrainingProgress) => void) | undefined;
}): Promise<Map<string, number>> {
  const { texts, split, onProgress } = options;
  const words = new Map<string, number>();
  let count = 0;
  for await (const text of texts) {
    for (const word of split(text)) words.set(word, (words.get(word) ?? 0) + 1);
    if (++count % 1024 === 0) onProgress?.({ stage: 'counting', texts: count, words: words.size });
  }
  onProgress?.({ stage: 'counting', texts: count, words: words.size });
  return words;
}
