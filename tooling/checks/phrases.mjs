/** Matches the gap between two words in a comment, even if the second word is on the next line. */
const gap = String.raw`(?:[ \t]+|[ \t]*\n[ \t]*(?:\*|//|#|>)?[ \t]*)`;

/**
 * Phrases over which readers of this project stumbled, with replacements. A phrase between hyphens is
 * allowed, because it is part of a file's name.
 */
const phrases = [
  ['held against', 'compared with'],
  ['doubles? of', 'a mock of'],
  ['what came', 'results'],
  ['on purpose', 'deliberately, or injected faults'],
  // the word before a colon may be a key in results that scripts read
  ['(?<!model )cards?(?!:)', 'GPU, or model card'],
  ['mend(?:s|ed|ing)?', 'fix'],
  ['comes? along', 'bundled'],
  ['lets pass', 'accepts'],
  ['dealt out', 'partitioned'],
  ['is a matter of', 'depends on'],
  ['whoever|nobody|somebody', 'the user, the caller, or the passive'],
  ['good for nothing', 'useless'],
  ['of its own accord', 'automatically'],
  ['matrix products?', 'matmul'],
  ['beside', 'next to, with'],
  ['dearer', 'more expensive'],
  ['foreign flags?', 'Megatron flag that is not supported'],
].map(([pattern, instead]) => ({ pattern: compilePhrase(pattern), instead }));

function compilePhrase(pattern) {
  return new RegExp(`(?<![-\\w])(?:${pattern.replaceAll(' ', gap)})(?![-\\w])`, 'gi');
}

/** Files that are not checked: this list, and its tests. */
const exempt = ['tooling/checks/phrases.mjs', 'tooling/checks/check-repository.mjs'];

/** Returns a problem for each phrase in the list that a document or a source contains, with its line. */
export function checkPhrases(path, text) {
  if (exempt.includes(path)) return [];
  return phrases.flatMap(({ pattern, instead }) =>
    [...text.matchAll(pattern)].map(({ 0: found, index }) => {
      const line = text.slice(0, index).split('\n').length;
      return `${path}:${line}: "${found.replace(/\s+/g, ' ')}": write ${instead}`;
    }),
  );
}

const ownLine = /^\s*(?:\/\/|#) /;
const openings = ['Of', 'Those', 'What'].join('|');
/**
 * Matches a comment that begins with a word in `openings`. The comment may have its own line, be at the end
 * of a line, or be a block.
 */
const opening = new RegExp(String.raw`(?:\/\*\*?|\/\/|^\s*#) (${openings}) `);
const openingOfBlock = new RegExp(String.raw`^\s*\* (${openings}) `);

/** Returns a problem for each comment in a source that begins without a subject. */
export function checkOpenings(path, text) {
  if (path.endsWith('.md') || exempt.includes(path)) return [];
  const lines = text.split('\n');
  return lines.flatMap((line, index) => {
    const before = lines[index - 1] ?? '';
    const goesOn = ownLine.test(line) && ownLine.test(before);
    const found = /\/\*\*?$/.test(before) ? openingOfBlock.exec(line) : goesOn ? null : opening.exec(line);
    if (found === null) return [];
    return [
      `${path}:${index + 1}: a comment begins with "${found[1]}": write a sentence with a subject, or a verb`,
    ];
  });
}
