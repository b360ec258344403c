/** Normalizes a text before it is split into words. */
export interface Normalizer {
  normalize(text: string): string;
  /**
   * Normalizes a text. Also returns the number of UTF-16 units at its start that belong to the first
   * character of the original text. Metaspace needs this number to decide where a word begins.
   */
  trace(traced: TracedText): TracedText;
}

/** A normalized text, with information about its origin. */
export interface TracedText {
  readonly text: string;
  /**
   * The number of UTF-16 units at the text's start that belong to the first character of the original text.
   */
  readonly front: number;
}

/**
 * Makes a normalizer from `normalize`, and from `front`, which returns the length of the text that belongs to
 * the first character.
 */
export function tracedNormalizer(
  normalize: (text: string) => string,
  front: (traced: TracedText) => number,
): Normalizer {
  return {
    normalize,
    trace: (traced) => {
      const text = normalize(traced.text);
      return { text, front: Math.max(0, Math.min(front(traced), text.length)) };
    },
  };
}
