/** Writes `-` for `_` in flags, since torchrun takes both; the program's own flags stay as they are. */
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
