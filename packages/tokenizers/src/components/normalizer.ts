/** Changes a text before it is split into words. */
export interface Normalizer {
  normalize(text: string): string;
  /**
   * Normalizes a text and returns how much at its start comes from the first character of the original. A
   * Metaspace needs this to find where a word begins.
   */
  trace(traced: TracedText): TracedText;
}

/** A text that was changed. */
export interface TracedText {
  readonly text: string;
  /** The number of UTF-16 units at its start that come from the first character of the original. */
  readonly front: number;
}

/** Makes a normalizer from a function, and from one that returns the start of the normalized text. */
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
