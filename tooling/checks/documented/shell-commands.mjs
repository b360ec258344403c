/** Reads the shell commands in documents, each as a list of words. */

/** The words with which a command of this repository, or of npm, begins in a document. */
const programs = new Set(['mtl', 'gpt-train', 'bert-train', 'mtl-link', 'npm']);

/**
 * Returns the simple commands in a shell script, without comments, redirections, quotes, and variables that
 * are set before a command. Commands within `$(...)` are separate. `line` is the line number, counted from 0.
 */
export function shellCommands(text) {
  const commands = [];
  let words = [];
  let word;
  let line = 0;
  let start = 0;
  const endWord = () => {
    if (word !== undefined) words.push(word);
    word = undefined;
  };
  const endCommand = () => {
    endWord();
    if (words.length > 0) commands.push({ words, line: start });
    words = [];
  };
  const add = (part) => {
    if (word === undefined && words.length === 0) start = line;
    word = (word ?? '') + part;
  };
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '\n') {
      endCommand();
      line += 1;
    } else if (char === '\\') {
      at += 1;
      if (text[at] === '\n') {
        endWord();
        line += 1;
      } else add(text[at] ?? '');
    } else if (char === "'" || char === '"') {
      const end = text.indexOf(char, at + 1);
      const quoted = text.slice(at + 1, end < 0 ? undefined : end);
      add(quoted);
      line += quoted.split('\n').length - 1;
      at = end < 0 ? text.length : end;
    } else if (char === '#' && word === undefined) {
      const end = text.indexOf('\n', at);
      at = (end < 0 ? text.length : end) - 1;
    } else if (char === '$' && text[at + 1] === '(') {
      endCommand();
      at += 1;
    } else if (';&|()'.includes(char)) endCommand();
    else if (char === '<' || char === '>') {
      // in 2>FILE, the number belongs to the redirection
      if (/^\d$/.test(word ?? '')) word = undefined;
      endWord();
      words.push(char);
    } else if (/\s/.test(char)) endWord();
    else add(char);
  }
  endCommand();
  return commands.map(({ words: all, line: at }) => ({ words: withoutRedirections(all), line: at }));
}

/** Returns the words before the first redirection. */
function withoutRedirections(words) {
  const at = words.findIndex((word) => word === '<' || word === '>');
  return at < 0 ? words : words.slice(0, at);
}

/**
 * Returns the words of a command, beginning with the name of a program of this repository. Launchers and
 * variables before it are removed: `srun npx gpt-train ...` becomes `gpt-train ...`. Returns undefined for
 * all other commands.
 */
export function ownCommand(words) {
  const at = words.findIndex((word) => programs.has(word));
  if (at < 0) return undefined;
  const before = words.slice(0, at).filter((word) => !/^[A-Z_]+=/.test(word));
  const isStarted = before.every((word) => /^(npx|--no-install|sudo|time|exec|\$|%)$/.test(word));
  const launched = /^(srun|mpirun|torchrun|timeout|nsys|env)$/.test(before[0] ?? '');
  return isStarted || launched ? words.slice(at) : undefined;
}

/**
 * Converts a usage text to a command. All optional parts (in brackets) are included. Among alternatives
 * (`A|B`), only the first is included.
 */
export function withoutUsageMarks(text) {
  return text
    .replaceAll('\\|', '|')
    .replaceAll(/(^| )\[([^\]]*)\]/g, '$1$2')
    .replaceAll(/(\w)(?:\|[\w.]+)+/g, '$1');
}
