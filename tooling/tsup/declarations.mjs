import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join, relative, sep } from 'node:path';
import ts from 'typescript';

/** Reads tsconfig.json of the checkout `root`, with what writing declarations needs in addition. */
function readOptions(root) {
  const { config, error } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  if (error !== undefined) throw new Error(ts.flattenDiagnosticMessageText(error.messageText, '\n'));
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
  return {
    ...options,
    rootDir: root,
    outDir: root,
    noEmit: false,
    emitDeclarationOnly: true,
    declaration: true,
    // `npm run typecheck` checks types; here only the types that declarations name are inferred
    noCheck: true,
    allowJs: false,
  };
}

/**
 * Type references that a declaration may need. Each is added if its pattern occurs in the declaration,
 * because the user's program may not request these types itself.
 */
const references = [
  ['lib="esnext.disposable"', /\bSymbol\.(?:asyncD|d)ispose\b|\b(?:Async)?Disposable\b/],
  ['types="node"', /\bNodeJS\.|\bBuffer\b|['"]node:/],
];

/**
 * Adds the references that a declaration `text` needs, so that it is valid under `tsc --strict` without
 * further options.
 */
function withReferences(text) {
  const needed = references.filter(([, isUsed]) => isUsed.test(text));
  return needed.map(([what]) => `/// <reference ${what} />\n`).join('') + text;
}

/**
 * Finds packages that declarations import but that are not installed together with the package.
 *
 * @returns a problem for each such package
 */
function missingDependencies(folder, texts) {
  const { name, dependencies, peerDependencies } = JSON.parse(
    readFileSync(join(folder, 'package.json'), 'utf8'),
  );
  const installed = new Set([name, ...Object.keys({ ...dependencies, ...peerDependencies })]);
  return [...texts].flatMap(([path, text]) =>
    ts
      .preProcessFile(text, true, true)
      .importedFiles.map(({ fileName }) => fileName)
      .filter((module) => !module.startsWith('.') && !isBuiltin(module))
      .map((module) => module.split('/', module.startsWith('@') ? 2 : 1).join('/'))
      .filter((module) => !installed.has(module))
      .map(
        (module) =>
          `${join(folder, 'src', path)} names a type of ${module}, which is no dependency of ${name}`,
      ),
  );
}

/**
 * Makes the declarations of packages and apps: one file for each source that their entry points reach, all in
 * a single TypeScript program and without a type check.
 *
 * @param {object} options
 * @param {string} options.root the checkout
 * @param {ReadonlyMap<string, readonly string[]>} options.entries the entry points of each package by its
 *   folder, as paths relative to the folder
 * @returns {Map<string, Map<string, string>>} the texts by folder and by path below `src`
 * @throws Error with the place of each type that a declaration cannot name, or that belongs to a package
 *   which users of the declaring package do not install
 */
export function makeDeclarations({ root, entries }) {
  const rootNames = [...entries].flatMap(([folder, paths]) => paths.map((path) => join(folder, path)));
  const program = ts.createProgram(rootNames, readOptions(root));
  const made = new Map([...entries.keys()].map((folder) => [folder, new Map()]));
  const write = (path, text) => {
    const [kind, name, source, ...rest] = relative(root, path).split(sep);
    if (source === 'src') made.get(join(root, kind, name))?.set(rest.join(sep), withReferences(text));
  };
  const { diagnostics } = program.emit(undefined, write, undefined, true);
  if (diagnostics.length > 0) {
    const host = {
      getCurrentDirectory: () => root,
      getCanonicalFileName: (path) => path,
      getNewLine: () => '\n',
    };
    throw new Error(ts.formatDiagnostics(diagnostics, host).trimEnd());
  }
  const problems = [...made].flatMap(([folder, texts]) => missingDependencies(folder, texts));
  if (problems.length > 0) throw new Error(problems.join('\n'));
  return made;
}
