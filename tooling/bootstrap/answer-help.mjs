/**
 * Prints `text` and ends the program if --help or -h is among the arguments. Programs call this before they
 * install, build or change anything.
 */
export function answerHelp(text, words = process.argv.slice(2)) {
  if (!asksForHelp(words)) return;
  console.log(text);
  process.exit(0);
}

export function asksForHelp(words) {
  return words.includes('--help') || words.includes('-h');
}
