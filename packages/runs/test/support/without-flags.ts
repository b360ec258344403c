/** Returns the words of a command line without these flags, which the caller replaces. */
export function withoutFlags(words: readonly string[], given: readonly string[]): string[] {
  return words.filter((word, index) => !given.includes(word.startsWith('--') ? word : words[index - 1]!));
}
