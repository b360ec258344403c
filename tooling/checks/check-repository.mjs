#!/usr/bin/env node
/**
 * Checks house rules that no linter knows: the lengths and names of files; the width, words and openings of
 * comments; the files of each package and the contents of its package.json; object spreads that have no
 * effect; the length of the first example in a README; conflict markers of merges. `--self-test` shows that
 * each rule can fail.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { longFunctions } from './function-lengths.mjs';
import { checkOpenings, checkPhrases } from './phrases.mjs';
import { longComments, wrappedPattern } from './wrap-comments.mjs';

const maximumLines = 1000;
const maximumExampleLines = 40;
const sourcePattern = /\.(ts|mts|mjs|cc|h|cu|cuh|py)$/;
/** The files that are searched for phrases: documents, and sources with their comments, strings and names. */
const phrasePattern = /\.(md|ts|mts|mjs|cc|h|cu|cuh|sh)$/;
const markerPattern = /\.(md|json|jsonc|yaml|yml)$/;
// a formatter turns a conflict marker in Markdown into seven nested quotations
const conflictMarker = /^(<{7}|(> ?){7})/;
const packageFiles = ['package.json', 'README.md', 'vitest.config.ts', 'src/index.ts'];

/** Returns the problems of a file's length and name. */
function checkFile(path, text) {
  const problems = [];
  const lines = text.split('\n').length - 1;
  if (lines > maximumLines) problems.push(`${path}: ${lines} lines, at most ${maximumLines}`);
  const name = basename(path);
  const kebab = /^[a-z0-9.]+(-[a-z0-9.]+)*$/;
  const snake = /^[a-z0-9.]+(_[a-z0-9.]+)*$/;
  const isNative = /\.(cc|h|cu|cuh)$/.test(name);
  const isScript = name.endsWith('.py'); // both cases are allowed, since documents name scripts
  if (!(isNative ? snake : kebab).test(name) && !(isScript && snake.test(name))) {
    problems.push(`${path}: name it in ${isNative ? 'snake_case' : 'kebab-case'}`);
  }
  return problems;
}

/** Returns the problems of folder names, because tools and ignore files skip folders with certain names. */
function checkFolders(paths) {
  return paths
    .filter((path) =>
      path
        .split('/')
        .slice(0, -1)
        .some((folder) => ['build', 'dist'].includes(folder)),
    )
    .map((path) => `${path}: tools and ignore files skip folders of this name`);
}

/** Returns a problem for each conflict marker that a merge has left in the file. */
function checkConflicts(path, text) {
  return text
    .split('\n')
    .flatMap((line, index) => (conflictMarker.test(line) ? [`${path}:${index + 1}: marker of a merge`] : []));
}

/** Returns a problem for each comment that is wider than the formatter's lines. */
function checkComments(path, text) {
  if (!wrappedPattern.test(path)) return [];
  return longComments(text).map(
    (line) => `${path}:${line}: a comment wider than the formatter's lines (npm run format wraps it)`,
  );
}

/**
 * Returns a problem for each line in the file that spreads an object literal, because the literal's fields
 * could be written directly.
 */
function checkSpreads(path, text) {
  if (!/\.(ts|mts|mjs|md)$/.test(path)) return [];
  return text
    .split('\n')
    .flatMap((line, index) =>
      /(^|[{,(])\s*\.\.\.\{/.test(line) ? [`${path}:${index + 1}: write the fields without the spread`] : [],
    );
}

/** Returns a problem for each function that is too long for readers. */
function checkFunctions(path, text) {
  return longFunctions(path, text).map(
    ({ line, name, lines, most }) => `${path}:${line}: ${name} has ${lines} lines, at most ${most}`,
  );
}

/**
 * Returns a problem for each class that owns memory, files or connections but cannot be declared with
 * `using`.
 */
function checkDisposables(path, text) {
  if (!/^packages\/[^/]+\/src\/.*\.ts$/.test(path) || path.startsWith('packages/cli/')) return [];
  const classes = text.matchAll(
    /^(?:export )?(?:abstract )?class (\w+)(?:(?! extends )[^\n])*\{\n.*?^\}$/gms,
  );
  return [...classes].flatMap(([body, name]) => {
    const end = /^ {2}(async )?(dispose|close)\(\): [^\n]*\{/m.exec(body);
    if (end === null || /\[Symbol\.(asyncDispose|dispose)\]/.test(body)) return [];
    const symbol = end[1] === undefined ? 'dispose' : 'asyncDispose';
    return [`${path}: ${name} has ${end[2]}() and lacks [Symbol.${symbol}], which calls it`];
  });
}

/**
 * Returns the problems of a package's README: its first example must be short, because users read it first.
 */
function checkExample(path, text) {
  if (!/^packages\/[^/]+\/README\.md$/.test(path)) return [];
  const example = /^```ts\b[^\n]*\n([\s\S]*?)^```$/m.exec(text)?.[1];
  const lines = example === undefined ? 0 : example.split('\n').length - 1;
  if (lines <= maximumExampleLines) return [];
  return [`${path}: its first example has ${lines} lines, at most ${maximumExampleLines}`];
}

/** Returns a problem for each required file that is missing in a package. */
function checkPackage(folder, files) {
  return packageFiles
    .filter((file) => !files.has(`${folder}/${file}`))
    .map((file) => `${folder}: ${file} is missing`);
}

/**
 * Returns the problems in the package.json of a published package. Only the fields by which npm users find
 * the package and its authors are checked. The addresses in these fields must match `repository` (a URL) in
 * the root package.json. If the root has no `repository`, the package must have no addresses.
 */
function checkManifest(path, text, rootText) {
  const folder = path.replace(/\/package\.json$/, '');
  const { author, repository: url } = JSON.parse(rootText);
  const addresses = url && {
    repository: { type: 'git', url: `git+${url}.git`, directory: folder },
    homepage: `${url}/tree/main/${folder}#readme`,
    bugs: `${url}/issues`,
  };
  const manifest = JSON.parse(text);
  const { keywords = [] } = manifest;
  const wanted = { author, repository: undefined, homepage: undefined, bugs: undefined, ...addresses };
  return [
    ...(new Set(keywords).size === keywords.length && keywords.length >= 3
      ? []
      : [`${path}: "keywords" has ${keywords.length} words, at least 3 that differ`]),
    ...Object.entries(wanted)
      .filter(([field, value]) => JSON.stringify(manifest[field]) !== JSON.stringify(value))
      .map(([field, value]) => `${path}: "${field}" is not ${JSON.stringify(value) ?? 'absent'}`),
  ];
}

/**
 * Returns the problems in a changeset, because a release rejects changesets that name unpublished packages.
 */
function checkChangeset(path, text, folders) {
  const published = new Set([...folders].map((folder) => `@mtl/${basename(folder)}`));
  const named = [...text.split(/^---$/m)[1].matchAll(/@mtl\/[\w-]+/g)].map(([name]) => name);
  return named
    .filter((name) => !published.has(name))
    .map((name) => `${path}: ${name} is not published, and changesets name what is`);
}

/**
 * Returns a problem if a test that needs a GPU is not in the list of allowed skips. CI has no GPU and allows
 * only the skips in this list.
 */
function checkSkips(path, allowedSkips) {
  if (!/\/test\/cuda\/.*\.test\.ts$/.test(path)) return [];
  const isKnown = allowedSkips.split('\n').some((line) => line.trim().startsWith(`${path}:`));
  return isKnown ? [] : [`${path}: .ci/allowed-skips does not name it, and CI has no GPU`];
}

/** Returns a problem if a native file uses threads, because only one file of the kernels may do so. */
function checkThreads(path, text) {
  const isNative = path.startsWith('packages/kernels/native/') && !path.includes('/cuda/');
  const isThreads = path === 'packages/kernels/native/platforms/linux/threads.cc';
  if (!isNative || isThreads || !/^\s*#\s*(include\s*<omp\.h>|pragma\s+omp\b)/m.test(text)) return [];
  return [`${path}: OpenMP is used by platforms/linux/threads.cc alone`];
}

/**
 * The package.json files for the self-test: one is valid in any repository, the other is valid in a
 * repository with an address.
 */
const author = 'The authors';
const url = 'https://example.org/mtl';
const described = { author, keywords: ['a', 'b', 'c'] };
const manifestProblems = (manifest, ofRoot = {}) =>
  checkManifest('packages/a/package.json', JSON.stringify(manifest), JSON.stringify({ author, ...ofRoot }));
const directory = 'packages/a';
const addressed = {
  ...described,
  repository: { type: 'git', url: `git+${url}.git`, directory },
  homepage: `${url}/tree/main/packages/a#readme`,
  bugs: `${url}/issues`,
};

/** Returns problems that the rules must find in the self-test. */
const findings = () => [
  checkFile('packages/a/src/long.ts', 'x\n'.repeat(1001)),
  checkFile('packages/a/src/long.test.ts', 'x\n'.repeat(1001)),
  checkFile('packages/a/src/CamelCase.ts', ''),
  checkFile('packages/a/native/kebab-case.cc', ''),
  checkConflicts('README.md', `text\n${'<'.repeat(7)} HEAD\n`),
  checkConflicts('README.md', `text\n${'>'.repeat(7)} main\n`),
  checkConflicts('README.md', `text\n${'> '.repeat(7)}main\n`),
  checkComments('a.ts', `/** ${'word '.repeat(25)}*/\n`),
  checkComments('a.cc', `x\n  // ${'word '.repeat(25)}\n`),
  checkPackage('packages/a', new Set(['packages/a/package.json'])),
  manifestProblems({ author }),
  manifestProblems({ ...described, keywords: ['a', 'b', 'b'] }),
  manifestProblems({ keywords: described.keywords }),
  manifestProblems({ ...described, bugs: `${url}/issues` }),
  manifestProblems(described, { repository: url }),
  manifestProblems({ ...addressed, homepage: url }, { repository: url }),
  checkSkips('packages/a/test/cuda/b.test.ts', 'packages/a/test/cuda/c.test.ts: d # why\n'),
  checkChangeset('a.md', "---\n'@mtl/a': patch\n'@mtl/app': patch\n---\n\nText\n", ['packages/a']),
  checkThreads('packages/kernels/native/backends/cpu/simd/a.cc', 'x\n#include <omp.h>\n'),
  checkThreads('packages/kernels/native/backends/cpu/a.h', '  #pragma omp parallel\n'),
  checkFolders(['packages/a/src/build/name.ts']),
  checkSpreads('a.ts', 'const a = {\n  ...{ b: 1, c: 2 },\n};\n'),
  checkSpreads('a.md', '```ts\nconst a = {\n  ...{ b: 1, c: 2 },\n};\n```\n'),
  checkSpreads('a.ts', 'const a = {\n  ...{\n    b: 1,\n  },\n};\n'),
  checkSpreads('a.ts', `call({ ...a, ${'...'}{ b: 1 } });\n`),
  checkFunctions('a.ts', `class A {\n  b() {\n${'c();\n'.repeat(99)}}\n}\n`),
  checkFunctions('a.mjs', `const a = () => {\n${'c();\n'.repeat(99)}};\n`),
  checkFunctions('a.test.ts', `describe('a', () => {\n  it('b', () => {\n${'c();\n'.repeat(99)}});\n});\n`),
  checkFunctions('a.cc', `namespace {\nint A::b() const {\n${'c({1});\n'.repeat(149)}}\n}\n`),
  checkFunctions('a.h', `struct A {\n  A(int c) : b{c}, d(c) {\n${'c();\n'.repeat(149)}}\n};\n`),
  checkExample('packages/a/README.md', `# a\n\n\`\`\`ts\n${'x\n'.repeat(41)}\`\`\`\n`),
  checkDisposables('packages/a/src/b.ts', 'class A {\n  close(): void {\n    b();\n  }\n}\n'),
  checkDisposables(
    'packages/a/src/b.ts',
    'export class A implements B {\n  async close(): Promise<void> {}\n}\n',
  ),
  checkPhrases('a.md', 'Kernels are held against the reference.\n'),
  checkPhrases('a.md', 'Cards are mended.\n'),
  checkPhrases('a.ts', "it('runs on one card', () => {});\n"),
  checkPhrases('a.ts', ' * Fields are wrong on\n * purpose.\n'),
  checkPhrases('a.cc', 'x\n// The result is held\n  // against the reference.\n'),
  checkPhrases('a.sh', '# the file lies beside it\n'),
  checkOpenings('platforms/a.ts', '/** Of one rank: its mesh. */\n'),
  checkOpenings('platforms/a.ts', 'x\n  /**\n   * What a rank sends.\n   */\n'),
  checkOpenings('platforms/a.cc', 'int a; // Those of the last row\n'),
  checkOpenings('platforms/a.sh', 'x=1\n# What follows\n'),
];

/** Returns the results of checks that must find no problems in the self-test. */
const clean = () => [
  checkFile('packages/a/src/fine-name.test.ts', 'x\n'.repeat(1000)),
  checkComments('a.ts', `// ${'word '.repeat(20)}\nconst a = '${'word '.repeat(25)}';\n`),
  checkComments('a.py', `# ${'word '.repeat(25)}\n`),
  checkConflicts('README.md', `> > a quotation\n${'='.repeat(7)}\n1 <<<<<<< 2\n`),
  checkPackage('packages/a', new Set(packageFiles.map((file) => `packages/a/${file}`))),
  manifestProblems(described),
  manifestProblems(addressed, { repository: url }),
  checkSkips('packages/a/test/cuda/b.test.ts', 'packages/a/test/cuda/b.test.ts: d # why\n'),
  checkChangeset('a.md', "---\n'@mtl/a': patch\n---\n\nOf @mtl/app\n", ['packages/a']),
  checkFolders(['packages/a/src/name.ts', 'packages/b/src/name.ts', 'packages/b/src/build-name.ts']),
  checkThreads('packages/kernels/native/platforms/linux/threads.cc', '#include <omp.h>\n'),
  checkThreads('packages/kernels/native/backends/cpu/a.cc', '// #include <omp.h>\n'),
  checkSpreads('a.ts', 'const a = {\n  ...b,\n  ...(c ? { d: 1 } : {}),\n};\n'),
  checkFunctions('a.ts', `function a() {\n${'c();\n'.repeat(98)}}\n`),
  checkFunctions('a.test.ts', `describe.each([1])('a', () => {\n${"it('b', () => {});\n".repeat(200)}});\n`),
  checkFunctions(
    'a.cc',
    `int a() { return '{'; }\nconst int table[] = {\n${'f(1),\n'.repeat(200)}};\nint b() {\n${'c();\n'.repeat(148)}}\n`,
  ),
  checkExample('packages/a/README.md', '```sh\na\n```\n'),
  checkExample(
    'packages/a/README.md',
    `\`\`\`ts\n${'x\n'.repeat(40)}\`\`\`\n\n\`\`\`ts\n${'x\n'.repeat(41)}\`\`\`\n`,
  ),
  checkDisposables(
    'packages/a/src/b.ts',
    'class A {\n  close(): void {}\n  [Symbol.dispose](): void {}\n}\nclass B extends A {\n  close(): void {}\n}\n',
  ),
  checkPhrases('a.md', 'node tooling/cuda/run-on-gpu.mjs compares an amendment with a discarded one.\n'),
  checkPhrases('a.mjs', 'write({ card: gpu, purpose: on });\n'),
  checkPhrases('tooling/checks/phrases.mjs', "['cards', 'GPUs'],\n"),
  checkOpenings(
    'platforms/a.ts',
    '/**\n * Sums rows.\n * Of two it takes one.\n */\n// two lines\n// Of text\n',
  ),
  checkOpenings('platforms/a.sh', '# a comment\n# What follows goes on\n'),
];

function selfTest() {
  const broken =
    findings().some((problems) => problems.length === 0) || clean().some((problems) => problems.length > 0);
  if (broken) throw new Error('check-repository: a rule does not fail, or does not pass, as it should');
}

selfTest();
if (!process.argv.includes('--self-test')) {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  })
    .split('\n')
    // git also lists files whose deletion is not committed
    .filter((path) => path !== '' && existsSync(join(root, path)));
  const folders = new Set(
    files.filter((path) => path.startsWith('packages/')).map((path) => path.split('/').slice(0, 2).join('/')),
  );
  const rootManifest = readFileSync(join(root, 'package.json'), 'utf8');
  const problems = [
    ...files
      .filter((path) => sourcePattern.test(path))
      .map((path) => [path, readFileSync(join(root, path), 'utf8')])
      .flatMap(([path, text]) => [
        ...checkFile(path, text),
        ...checkComments(path, text),
        ...checkSpreads(path, text),
        ...checkFunctions(path, text),
        ...checkDisposables(path, text),
        ...checkThreads(path, text),
      ]),
    ...files
      .filter((path) => sourcePattern.test(path) || markerPattern.test(path))
      .flatMap((path) => checkConflicts(path, readFileSync(join(root, path), 'utf8'))),
    ...files
      .filter((path) => /^\.changeset\/(?!README).*\.md$/.test(path))
      .flatMap((path) => checkChangeset(path, readFileSync(join(root, path), 'utf8'), folders)),
    ...files
      .filter((path) => phrasePattern.test(path))
      .map((path) => [path, readFileSync(join(root, path), 'utf8')])
      .flatMap(([path, text]) => [...checkPhrases(path, text), ...checkOpenings(path, text)]),
    ...files
      .filter((path) => path.endsWith('.md'))
      .map((path) => [path, readFileSync(join(root, path), 'utf8')])
      .flatMap(([path, text]) => [...checkSpreads(path, text), ...checkExample(path, text)]),
    ...checkFolders(files),
    ...files.flatMap((path) => checkSkips(path, readFileSync(join(root, '.ci/allowed-skips'), 'utf8'))),
    ...[...folders].flatMap((folder) => checkPackage(folder, new Set(files))),
    ...files
      .filter((path) => /^(packages|platforms)\/[^/]+\/package\.json$/.test(path))
      .flatMap((path) => checkManifest(path, readFileSync(join(root, path), 'utf8'), rootManifest)),
  ];
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exit(1);
  console.log(`repository: ${files.length} files follow the house rules`);
}
