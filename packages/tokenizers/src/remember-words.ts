// these limits suit the cache because texts repeat short words, but rarely long words
const maximumWords = 1 << 16;
const maximumLength = 64;

/**
 * Caches the results of `compute` for short words. To limit its memory, the cache is cleared when it contains
 * 65,536 words.
 */
export function rememberWords<T>(compute: (word: string) => T): (word: string) => T {
  const known = new Map<string, T>();
  return (word) => {
    if (word.length > maximumLength) return compute(word);
    const found = known.get(word);
    if (found !== undefined) return found;
    const computed = compute(word);
    if (known.size >= maximumWords) known.clear();
    // the word is copied, because a slice of a text keeps the complete text in memory
    known.set(Buffer.from(word, 'utf16le').toString('utf16le'), computed);
    return computed;
  };
}
