// Texts repeat their short words; long ones rarely come again.
const maximumWords = 1 << 16;
const maximumLength = 64;

/**
 * Makes a function of a word compute short words once. It forgets all of them when 65,536 are kept, so that
 * memory is bounded.
 */
export function rememberWords<T>(compute: (word: string) => T): (word: string) => T {
  const known = new Map<string, T>();
  return (word) => {
    if (word.length > maximumLength) return compute(word);
    const found = known.get(word);
    if (found !== undefined) return found;
    const computed = compute(word);
    if (known.size >= maximumWords) known.clear();
    // a copy: a word cut out of a text keeps the whole text in memory
    known.set(Buffer.from(word, 'utf16le').toString('utf16le'), computed);
    return computed;
  };
}
