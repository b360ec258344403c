/** The words of a command line without the flags that others are given in place of. */
export function withoutFlags(words: readonly string[], given: readonly string[]): string[] {
  return words.filter((word, index) => !given.includes(word.startsWith('--') ? word : words[index - 1]!));
}
