/** Changes a text before it is split into words. */
export interface Normalizer {
  normalize(text: string): string;
  /**
   * Normalizes a text and tells how much at its start comes from the first character of the original: a
   * Metaspace can ask where a word begins.
   */
  trace(traced: TracedText): TracedText;
}

/** A text that was changed. */
export interface TracedText {
  readonly text: string;
  /** How many UTF-16 units at its start come from the first character of the original. */
  readonly front: number;
}

/** Makes a normalizer of a function, and one that returns the front of what it makes of a text. */
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
