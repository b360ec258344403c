import { basename, join } from 'node:path';
import ts from 'typescript';
import { root } from './packed-packages.mjs';

const options = {
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  allowImportingTsExtensions: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ESNext,
  lib: ['lib.esnext.d.ts'],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ['node'],
  typeRoots: [join(root, 'tooling', 'node_modules', '@types')],
};

/**
 * Returns a host that reads the declarations of the language and of Node from the checkout, only once for all
 * programs.
 */
function compilerHost() {
  const host = ts.createCompilerHost(options);
  const known = new Map();
  const { getSourceFile } = host;
  host.getSourceFile = (path, ...settings) => {
    const found = known.get(path) ?? getSourceFile(path, ...settings);
    if (path.startsWith(root)) known.set(path, found);
    return found;
  };
  return host;
}

const host = compilerHost();

/**
 * Returns the type errors in the files `paths`, one line for each error. They are checked as strictly as our
 * own packages, and imports are resolved from their folders.
 *
 * @param how `checksDeclarations`: true to also find errors in declarations, which are not checked by default
 */
export function typeErrors(paths, { checksDeclarations = false } = {}) {
  const program = ts.createProgram(paths, { ...options, skipLibCheck: !checksDeclarations }, host);
  return ts.getPreEmitDiagnostics(program).map(({ file, start, messageText }) => {
    const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start).line + 1;
    const name = file === undefined ? '' : basename(file.fileName);
    return `${name}, line ${line}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
  });
}
