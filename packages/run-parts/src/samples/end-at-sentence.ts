/** The end of a sentence, with the quotes and brackets that close behind it. */
const sentenceEnd = /(?:[.!?…]["'”’)\]]*(?=\s|$)|[。！？][”’」』）]*)/gu;

/**
 * A text that was cut off somewhere, up to its last whole sentence; with an ellipsis where that would leave
 * less than a third of it, as in texts that have no sentences.
 */
export function endAtSentence(text: string): string {
  // what is left of a character whose other bytes were not generated
  const whole = text.replace(/\uFFFD+$/u, '').trimEnd();
  const ends = [...whole.matchAll(sentenceEnd)].map((match) => match.index + match[0].length);
  const last = ends.at(-1) ?? 0;
  return 3 * last >= whole.length && whole !== '' ? whole.slice(0, last) : `${whole} ...`;
}
