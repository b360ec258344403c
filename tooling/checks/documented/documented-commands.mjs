/**
 * Finds the commands and flags in documents and in the strings of sources, and checks them with the commands'
 * argument parsers.
 */
import ts from 'typescript';
import { parseSource } from '../parse-source.mjs';
import { npmProblems } from './npm-scripts.mjs';
import { ownCommand, shellCommands, withoutUsageMarks } from './shell-commands.mjs';

/** Matches the start of a command in a message. */
const commandInText = /(?<![\w@/.$-])(?:npx )?(mtl|gpt-train|bert-train) (?=[a-z-])/g;
const flagInText = /(?<![\w-])--[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*(?![\w-]*-[*A-Z])(?!-)/g;

/** Matches words that follow the name of a program in a sentence but are not its subcommands. */
const words =
  /^(a|and|are|as|bert-train|can|command|does|gpt-train|has|in|is|of|or|that|the|to|was|which|with|writes?|wrote|prints|shows)$/;

/** Matches the name of a file format that looks like a command. */
const namesOfFormats = /^mtl pipeline trace \d/;

/** Matches the names of third-party programs, whose flags are not checked. */
const otherPrograms =
  /^(apt-get|cmake|ctest|curl|cuobjdump|git|ln|ncu|nsys|node|nvcc|nvidia-smi|pip|pip3|pnpm|python3?|srun|sbatch|mpirun|torchrun|turbo|tsx|vitest|npx|yarn|biome|tsc|perf|taskset|numactl|docker|ip|corepack|compute-sanitizer)\b/;

/**
 * Flags of third-party programs that may occur in texts without the program's name. The comment after each
 * list names the program.
 */
export const flagsOfOthers = new Set([
  ...['--map-by', '--rank-by', '--bind-to', '--oversubscribe', '--report-bindings'], // mpirun
  ...['--mpi', '--ntasks', '--ntasks-per-node', '--nodes', '--gpus-per-task', '--gpu-bind', '--export'], // srun
  ...[
    '--import',
    '--conditions',
    '--expose-gc',
    '--experimental-strip-types',
    '--max-old-space-size',
    '--cpu-prof',
  ], // node
  ...['--always', '--dirty', '--abbrev', '--exclude'], // git describe
  ...['--requeue', '--kill-on-bad-exit', '--gpus', '--fifo'], // sbatch, srun, docker, chrt
  '--local-dir', // hf
  ...['--save-dev', '--ignore-scripts', '--no-save', '--omit', '--prefix', '--offline', '--provenance'], // npm
]);

/** Replaces words that a shell expands by a placeholder. */
const withoutVariables = (list) => list.map((word) => (/[$~]/.test(word) ? 'VALUE' : word));

/** Returns the problems in a command, which is given as words that begin with the name of a program. */
function listProblems(list, { path, isWhole, checker, paragraph }) {
  const own = ownCommand(list);
  if (own === undefined) return [];
  const [program] = own;
  if (program === 'npm') {
    const trained = own.findIndex((word) => /^(gpt|bert)-train$/.test(word));
    const ends = own.indexOf('--');
    return [
      ...npmProblems(own, { path, paragraph }),
      ...(own[1] === 'run' && trained === 2 && ends > 0
        ? checker.commandProblems([own[2], ...withoutVariables(own.slice(ends + 1))], { isWhole })
        : []),
    ];
  }
  if (program === 'mtl-link') {
    return own.slice(1).flatMap((word) => (checker.linkFlags.has(word) ? [] : [`mtl-link takes no ${word}`]));
  }
  return checker.commandProblems(withoutVariables(own), { isWhole });
}

/** Returns the parts of a Markdown text: fenced blocks with their language, code spans, and the rest. */
function splitParts(text) {
  const blocks = [];
  const spans = [];
  const lines = text.split('\n');
  let open;
  const rest = lines.map((content, index) => {
    const fence = /^\s*```(.*)$/.exec(content);
    if (open !== undefined) {
      if (fence?.[1] === '') {
        blocks.push(open);
        open = undefined;
      } else open.lines.push(content);
      return '';
    }
    if (fence === null) return content;
    open = { info: fence[1], line: index + 2, lines: [] };
    return '';
  });
  const prose = rest.join('\n');
  for (const { 1: ticks, 2: code, index } of prose.matchAll(/(?<!`)(`+)(?!`)([\s\S]+?)(?<!`)\1(?!`)/g)) {
    // a code span must end within its paragraph
    if (ticks.length > 2 || code.includes('\n\n')) continue;
    const [before, after] = [prose.slice(0, index), prose.slice(index)];
    const paragraph = before.split('\n\n').at(-1) + after.split('\n\n', 1)[0];
    spans.push({ code: code.replaceAll(/\s+/g, ' ').trim(), line: before.split('\n').length, paragraph });
  }
  return { blocks, spans, prose };
}

/** Returns the problems in the commands and flags of a document, as `path:line: what`. */
export function documentProblems(path, text, checker) {
  const problems = [];
  const { blocks, spans, prose } = splitParts(text);
  for (const { info, line, lines } of blocks) {
    // blocks that show an error are skipped, because tests run the guides and check the error
    if (!/^(sh\b|$)/.test(info) || /status=[^0]/.test(info)) continue;
    for (const { words: list, line: offset } of shellCommands(lines.join('\n'))) {
      // a block without a language may show output instead of commands
      const found = listProblems(list, { path, isWhole: !lines.includes('...'), checker });
      problems.push(...found.map((what) => `${path}:${line + offset}: ${list.join(' ')}: ${what}`));
    }
  }
  for (const { code, line, paragraph } of spans) {
    const [command] = shellCommands(withoutUsageMarks(code));
    if (command === undefined) continue;
    const found = listProblems(command.words, { path, isWhole: false, checker, paragraph });
    problems.push(...found.map((what) => `${path}:${line}: ${code}: ${what}`));
  }
  const others = spans.filter(
    ({ code }) => otherPrograms.test(code) || ownCommand(code.split(' ')) !== undefined,
  );
  const mine = others.reduce((left, { code }) => left.replaceAll(code, ''), prose);
  const isKnown = (flag) => checker.isKnownFlag(flag) || checker.isFlagOfDevelopers(flag);
  problems.push(...flagProblems(path, mine, isKnown));
  return problems;
}

function flagProblems(path, text, isKnown) {
  return text.split('\n').flatMap((content, index) =>
    [...content.matchAll(flagInText)]
      .map(([flag]) => flag)
      .filter((flag) => !flagsOfOthers.has(flag) && !isKnown(flag))
      .map((flag) => `${path}:${index + 1}: ${flag} is a flag of no command`),
  );
}

/**
 * Returns the strings in a source. Concatenated literals are one string, with a placeholder for each value.
 */
function collectTexts(path, text) {
  const source = parseSource(path, text);
  const texts = [];
  const writtenText = (node) => {
    if (ts.isStringLiteralLike(node)) return node.text;
    if (ts.isTemplateExpression(node)) {
      return node.head.text + node.templateSpans.map(({ literal }) => `VALUE${literal.text}`).join('');
    }
    if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
      const [left, right] = [writtenText(node.left), writtenText(node.right)];
      if (left !== undefined || right !== undefined) return (left ?? 'VALUE') + (right ?? 'VALUE');
    }
    return undefined;
  };
  const visit = (node) => {
    const value = writtenText(node);
    if (value !== undefined) {
      const line = source.getLineAndCharacterOfPosition(node.getStart()).line + 1;
      // a value directly after a word may contain several words
      texts.push({ text: value.replaceAll(/([a-z])VALUE/g, '$1 VALUE'), line });
    }
    // the values in a template are also visited, because they may contain strings
    if (value === undefined || !ts.isStringLiteralLike(node)) {
      ts.forEachChild(node, (child) => {
        if (value === undefined || writtenText(child) === undefined || ts.isTemplateSpan(child)) visit(child);
      });
    }
  };
  visit(source);
  return texts;
}

/** Returns the problems in the commands and flags in a TypeScript source's strings. */
export function sourceProblems(path, text, checker) {
  if (!/--[a-z]|\b(mtl|gpt-train|bert-train) /.test(text)) return [];
  return collectTexts(path, text).flatMap(({ text: message, line }) => {
    const lines = message.split('\n');
    // an example in a help text is a whole command, with an optional remark in brackets
    const isExample = (each) => lines.length > 1 && /^ {2,}(mtl|gpt-train|bert-train) /.test(each);
    const joined = message.replaceAll(/\\\n\s*/g, '').split('\n');
    const examples = joined.filter(isExample).flatMap((each) => {
      const [command] = shellCommands(each.replace(/ {2,}\(.*$/, ''));
      const found = listProblems(command.words, { path, isWhole: true, checker });
      return found.map((what) => `${path}:${line}: ${each.trim()}: ${what}`);
    });
    const sentences = joined
      .filter((each) => !isExample(each))
      .flatMap((each) => [
        ...[...each.matchAll(commandInText)].flatMap((match) =>
          sentenceProblems(each.slice(match.index).replace(/^npx /, ''), checker).map(
            (what) => `${path}:${line}: ${what}`,
          ),
        ),
        ...flagProblems(path, withoutOthers(each), checker.isKnownFlag).map((what) =>
          what.replace(/:\d+:/, `:${line}:`),
        ),
      ]);
    return [...examples, ...sentences];
  });
}

/** Removes the commands of third-party programs from a sentence. */
const withoutOthers = (text) =>
  text.replaceAll(
    /(?<![\w-])(npm (?:install|ci)|npx|mpirun|srun|torchrun|cmake|pip|node|git|vitest|curl)\b[^;,)]*/g,
    '',
  );

/**
 * Returns the problems in the command at the beginning of a sentence: in its names, and in the flags before
 * the next comma.
 */
function sentenceProblems(sentence, checker) {
  const [phrase] = sentence.split(/[;,:()"`]|\.(?:\s|$)/);
  const all = phrase.trim().split(/\s+/);
  // the words after -- are a separate command line: `mtl run mtl -- ...` begins with the first mtl
  if (all[1] === '--') return [];
  if (all.includes('--')) {
    const found = checker.commandProblems(all, { isWhole: false });
    return found.map((what) => `${phrase.trim()}: ${what}`);
  }
  const [program, ...list] = all;
  const named = [program];
  if (program === 'mtl') {
    if (words.test(list[0]) || namesOfFormats.test(phrase) || list[0].includes('VALUE')) return [];
    while (list.length > 0) {
      const known = checker.listSubcommands(named.slice(1)) ?? [];
      if (known.length === 0) break;
      if (!/^[a-z-]+$/.test(list[0]) || list[0].startsWith('-')) break;
      if (!known.includes(list[0])) {
        if (named.length > 1) break;
        return [`${phrase.trim()}: mtl has no command ${list[0]}`];
      }
      named.push(list.shift());
    }
  }
  const flags = list.filter((word) => /^--[a-z]/.test(word)).map((word) => word.split('=')[0]);
  return flags.flatMap((flag) =>
    checker.takesFlag(named, flag) ? [] : [`${phrase.trim()}: ${named.join(' ')} has no flag ${flag}`],
  );
}

/** Returns the problems in npm commands anywhere in a text, including the comments of sources. */
export function npmProblemsOfText(path, text) {
  return text.split('\n').flatMap((content, index) =>
    [...content.matchAll(/(?<![\w-])npm run (?:--silent )?([^`'")\]|;]*)/g)].flatMap(([, command]) => {
      // uses only the words of the command, because the sentence may continue after it
      const [part] = command.split(/[.,:]+(?:\s|$)|\\| #| {2,}/);
      const list = ['npm', 'run', ...part.trim().split(/\s+/)];
      // skips a name that a program fills in, and a pattern in a test
      if (/[^\w:-]/.test(list[2] ?? '') || /[$(]/.test(list.join(''))) return [];
      const found = npmProblems(list, { path, paragraph: text });
      return found.map((what) => `${path}:${index + 1}: ${list.join(' ')}: ${what}`);
    }),
  );
}

/** Words that may come before the name of a test in a sentence but are not the name of a package. */
const joining = new Set(['and', 'is', 'of', 'see', 'in', 'by', 'also', 'both', 'alone']);

/**
 * Returns a problem for each test that a document names (as in `models \`megatron.test\``) but that does not
 * exist. The test is expected in the package whose name comes before it, or in any package if no package is
 * named.
 */
export function testProblems(path, text, files) {
  return text.split('\n').flatMap((content, index) =>
    [...content.matchAll(/(?:\b([a-z-]+) )?`([a-z0-9-]+\.test)`/g)].flatMap(([name, before, test]) => {
      const folder = before === undefined || joining.has(before) ? '[^/]+' : before;
      const pattern = new RegExp(`^(packages|apps)/${folder}/.*/${test}\\.ts$`);
      return files.some((file) => pattern.test(file)) ? [] : [`${path}:${index + 1}: no test ${name}`];
    }),
  );
}
