/**
 * Replaces `_` by `-` in flag names before the program on the command line, because torchrun accepts both
 * spellings. The program's own flags are not changed.
 */
export function withDashes(argv: readonly string[]): string[] {
  const words = [...argv];
  for (let at = 0; at < words.length && words[at] !== '--'; at++) {
    const word = words[at]!;
    if (!word.startsWith('-')) break; // the program
    const [flag, ...value] = word.split('=');
    words[at] = [flag!.replaceAll('_', '-'), ...value].join('=');
    const takesValue = value.length === 0 && !['--debug', '--help', '-h'].includes(words[at]!);
    if (takesValue) at += 1;
  }
  return words;
}
