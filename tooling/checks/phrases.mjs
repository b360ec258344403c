/**
 * Phrases that documents of this project once used and that readers stumbled over, with the words to write.
 * A phrase between dashes is part of a file's name and stays.
 */
const phrases = [
  ['held against', 'compared with'],
  ['doubles? of', 'a mock of'],
  ['what came', 'results'],
  ['on purpose', 'deliberately, or injected faults'],
  ['cards?', 'GPU'],
  ['mend(?:s|ed|ing)?', 'fix'],
  ['comes? along', 'bundled'],
  ['lets pass', 'accepts'],
  ['dealt out', 'partitioned'],
  ['is a matter of', 'depends on'],
  ['whoever|nobody|somebody', 'the user, the caller, or the passive'],
  ['good for nothing', 'useless'],
  ['of its own accord', 'automatically'],
  ['matrix products?', 'matmul'],
].map(([pattern, instead]) => ({ pattern: new RegExp(`(?<![-\\w])(?:${pattern})(?![-\\w])`, 'i'), instead }));

/** Problems of a document: the phrases of the list in it, each with its line. */
export function checkPhrases(path, text) {
  return text.split('\n').flatMap((line, index) =>
    phrases.flatMap(({ pattern, instead }) => {
      const [found] = pattern.exec(line) ?? [];
      return found === undefined ? [] : [`${path}:${index + 1}: "${found}": write ${instead}`];
    }),
  );
}
