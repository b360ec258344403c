// Python's \b sees letters and numbers of all languages and the underscore; JavaScript's only ASCII.
const articles = /(?<![\p{L}\p{N}_])(?:a|an|the)(?![\p{L}\p{N}_])/gu;
const asciiPunctuation = /[!-/:-@[-`{-~]/g;
// What Python's str.split takes for white space: without U+FEFF, with the separators 1C to 1F and U+0085.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are meant
const whiteSpace = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;

/**
 * An answer as SQuAD compares it: small letters, without ASCII punctuation, articles and superfluous white
 * space.
 */
export function normalizeAnswer(text: string): string {
  return answerWords(text).join(' ');
}

/** 1 when both are the same after normalisation, else 0. */
export function exactMatch(prediction: string, truth: string): number {
  return normalizeAnswer(prediction) === normalizeAnswer(truth) ? 1 : 0;
}

/**
 * The harmonic mean of precision and recall over the words of both (as bags), after normalisation. Where one
 * has no words, SQuAD 2.0 gives 1 when the other has none either, else 0; SQuAD 1.1 always 0.
 */
export function answerF1(
  prediction: string,
  truth: string,
  { emptyMatchesEmpty = true }: { readonly emptyMatchesEmpty?: boolean } = {},
): number {
  const predicted = answerWords(prediction);
  const expected = answerWords(truth);
  if (predicted.length === 0 || expected.length === 0) {
    return emptyMatchesEmpty && predicted.length === expected.length ? 1 : 0;
  }
  const counts = new Map<string, number>();
  for (const word of expected) counts.set(word, (counts.get(word) ?? 0) + 1);
  let same = 0;
  for (const word of predicted) {
    const left = counts.get(word) ?? 0;
    if (left === 0) continue;
    counts.set(word, left - 1);
    same++;
  }
  if (same === 0) return 0;
  const precision = same / predicted.length;
  const recall = same / expected.length;
  return (2 * precision * recall) / (precision + recall);
}

function answerWords(text: string): string[] {
  const plain = text.toLowerCase().replaceAll(asciiPunctuation, '').replaceAll(articles, ' ');
  return plain.split(whiteSpace).filter((word) => word !== '');
}
