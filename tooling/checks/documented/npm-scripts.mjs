/** Checks the npm commands in documents against the scripts in package.json files. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commands as devCommands } from '../../bootstrap/dev.mjs';

const root = fileURLToPath(new URL('../../../', import.meta.url));
/** Flags that turbo, vitest and biome take. */
const flagsOfRunners = /^--(filter|force|concurrency|all|write|reporter)\b/;

/** The scripts by folder. This cache saves time, because documents name the same folders repeatedly. */
const knownScripts = new Map();

/**
 * Returns the scripts of the package in a folder of the repository. The result is empty if the folder has no
 * package.
 */
function readScripts(folder) {
  if (!knownScripts.has(folder)) {
    const manifest = join(root, folder, 'package.json');
    knownScripts.set(
      folder,
      existsSync(manifest) ? JSON.parse(readFileSync(manifest, 'utf8')).scripts : undefined,
    );
  }
  return knownScripts.get(folder) ?? {};
}

/** Returns the folders of the packages that a paragraph names, as in `packages/kernels` or `@mtl/kernels`. */
function packagesNamed(paragraph) {
  const names = [...paragraph.matchAll(/(?:\b(?:packages|apps)\/|@mtl\/)([\w-]+)/g)].map(([, name]) => name);
  return names.flatMap((name) => [`packages/${name}`, `apps/${name}`]);
}

/** Returns the folder of the package that contains a file; undefined for a file of the root package. */
function findPackage(path) {
  for (let folder = dirname(path); folder !== '.'; folder = dirname(folder)) {
    if (existsSync(join(root, folder, 'package.json'))) return folder;
  }
  return undefined;
}

/**
 * Returns the contents of the files that a script names, and of the files next to them, because these may
 * read the script's flags.
 */
function textOfProgram(script, folder) {
  const files = script
    .split(' ')
    .filter((word) => /\.(mjs|ts)$/.test(word))
    .map((word) => join(root, folder, word))
    .filter((path) => existsSync(path));
  const near = files.flatMap((path) =>
    readdirSync(dirname(path))
      .filter((name) => /(?<!\.test)\.(mjs|ts)$/.test(name))
      .map((name) => join(dirname(path), name))
      .filter((each) => statSync(each).isFile()),
  );
  return near.map((path) => readFileSync(path, 'utf8')).join('\n');
}

/**
 * Returns true if a program reads a flag, that is, if `text` contains the flag itself or an option of
 * `parseArgs`.
 */
const reads = (text, flag) => {
  const name = flag.slice(2);
  return new RegExp(`${flag}(?![\\w-])|(?<![\\w-])['"]?${name}['"]?: \\{`).test(text);
};

/** Returns the flags in `args` that a program does not read, because they do not occur in its sources. */
function unknownFlags(args, { text }) {
  return args
    .filter((word) => word.startsWith('--') && word.length > 2 && !flagsOfRunners.test(word))
    .map((word) => word.split('=')[0])
    .filter((flag) => !reads(text, flag));
}

function devProblems([name, ...args]) {
  if (name === undefined || /^[A-Z]+$/.test(name) || name === '--help') return [];
  if (!Object.hasOwn(devCommands, name)) return [`npm run dev has no command ${name}`];
  const { command, help = '' } = devCommands[name];
  const text = `${help}\n${textOfProgram(command, '.')}`;
  return unknownFlags(args, { text }).map((flag) => `npm run dev -- ${name} has no flag ${flag}`);
}

/**
 * Returns the problems in an npm command in the file at `path`: a script that is neither in the root, nor in
 * the file's package, nor in a package that `paragraph` names; a flag that its program does not read; and
 * `-w`, because npm knows no workspaces here.
 */
export function npmProblems(words, { path, paragraph = '' }) {
  const isRun = words[1] === 'run';
  if (!isRun && !/^(test|start|t)$/.test(words[1] ?? '')) return [];
  const [name, ...rest] = isRun ? words.slice(2) : ['test', ...words.slice(2)];
  if (name === undefined || /^[A-Z]+$/.test(name) || name.includes('VALUE')) return [];
  const ends = rest.indexOf('--');
  const [own, args] = ends < 0 ? [rest, []] : [rest.slice(0, ends), rest.slice(ends + 1)];
  const problems = own
    .filter((word) => /^(-w|--workspace)/.test(word))
    .map((word) => `npm run ${word}: the workspace is pnpm's; run the script in the folder of the package`);
  const folders = [findPackage(path), '.', ...packagesNamed(paragraph)].filter((each) => each !== undefined);
  const folder = folders.find((each) => Object.hasOwn(readScripts(each), name));
  if (folder === undefined) {
    return [
      ...problems,
      `no script ${name} in ${folders.map((each) => join(each, 'package.json')).join(', ')}`,
    ];
  }
  if (name === 'dev') return [...problems, ...devProblems(args)];
  if (name === 'gpt-train' || name === 'bert-train') return problems;
  const text = textOfProgram(readScripts(folder)[name], folder);
  return [
    ...problems,
    ...unknownFlags(args, { text: text === '' ? args.join(' ') : text }).map(
      (flag) => `npm run ${name} has no flag ${flag}`,
    ),
  ];
}

/** Matches the paths of programs for developers, which npm scripts run or documents name by path. */
const developers =
  /^(tooling|(packages|apps)\/[^/]+\/(bench|parity|study|validation))\/.*(?<!\.test)\.(mjs|ts|py)$/;

/** Returns a predicate: true if any program for developers among `files` reads the given flag. */
export function flagsOfDevelopers(files) {
  const texts = files
    .filter((path) => developers.test(path) && !path.startsWith('tooling/checks/documented'))
    .map((path) => readFileSync(join(root, path), 'utf8'));
  const text = [...texts, ...Object.values(devCommands).map(({ help = '' }) => help)].join('\n');
  const known = new Map();
  return (flag) => {
    if (!known.has(flag)) known.set(flag, reads(text, flag));
    return known.get(flag);
  };
}
