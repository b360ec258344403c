import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join, relative, sep } from 'node:path';
import ts from 'typescript';

/**
 * Reads the compiler options in tsconfig.json of the checkout `root`, and adds the options for writing
 * declarations.
 */
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
    // types are not checked here, because `npm run typecheck` does it; only the types in declarations are
    // inferred
    noCheck: true,
    allowJs: false,
  };
}

/**
 * References to type libraries, each with the pattern of its types. If the pattern occurs in a declaration,
 * the reference is added, because the user's program may not request these types itself.
 */
const references = [
  ['lib="esnext.disposable"', /\bSymbol\.(?:asyncD|d)ispose\b|\b(?:Async)?Disposable\b/],
  ['types="node"', /\bNodeJS\.|\bBuffer\b|['"]node:/],
];

/**
 * Adds the references that the declaration `text` needs, so that it is valid under `tsc --strict` without
 * further options.
 */
function withReferences(text) {
  const needed = references.filter(([, isUsed]) => isUsed.test(text));
  return needed.map(([what]) => `/// <reference ${what} />\n`).join('') + text;
}

/**
 * Finds packages that the declarations in `texts` import, but that are not installed together with the
 * package in `folder`.
 *
 * @returns a message for each such import
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
 * Makes the declarations of packages and apps: one file for each source that their entry points reach. All
 * are made by a single TypeScript program, without a type check.
 *
 * @param {object} options
 * @param {string} options.root the checkout
 * @param {ReadonlyMap<string, readonly string[]>} options.entries the entry points of each package by its
 *   folder, as paths relative to the folder
 * @returns {Map<string, Map<string, string>>} the declarations by package folder and by path below `src`
 * @throws Error whose message has the place of each type that a declaration cannot name, or whose package
 *   users do not install together with the declaring package
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
