/** Changes a text before it is split into words. */
export interface Normalizer {
  normalize(text: string): string;
  /**
   * Normalizes a text, and also returns how many units at its start come from the first character of the
   * original. A Metaspace needs this to find where a word begins.
   */
  trace(traced: TracedText): TracedText;
}

/** A text that was changed. */
export interface TracedText {
  readonly text: string;
  /** The number of UTF-16 units at its start that come from the first character of the original. */
  readonly front: number;
}

/**
 * Makes a normalizer from a function that normalizes a text, and a function that returns the length of the
 * part that comes from the first character.
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
