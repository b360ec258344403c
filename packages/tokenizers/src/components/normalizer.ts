/** Normalizes a text before it is split into words. */
export interface Normalizer {
  normalize(text: string): string;
  /**
   * Normalizes a text. Also returns the number of UTF-16 units at its start that belong to the first
   * character of the original text. Metaspace needs this number to decide where a word begins.
   */
  trace(traced: TracedText): TracedText;
}

/** A normalized text, with information about which part comes from the original text's first character. */
export interface TracedText {
  readonly text: string;
  /**
   * The number of UTF-16 units at the text's start that belong to the first character of the original text.
   */
  readonly front: number;
}

/**
 * Makes a normalizer. `normalize` normalizes a text. `front` returns the length of the normalized text that
 * belongs to the first character.
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
