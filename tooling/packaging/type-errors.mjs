import { join } from 'node:path';
import ts from 'typescript';
import { root } from './packed-packages.mjs';

const options = {
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ESNext,
  lib: ['lib.esnext.d.ts'],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ['node'],
  typeRoots: [join(root, 'tooling', 'node_modules', '@types')],
};

/** Reads the declarations of the language and of Node, which are in the checkout, once for all programs. */
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
 * The type errors of a file, as strict as our own packages are checked, one line for each error;
 * imports are resolved from its folder. Declarations of other people's packages are taken as they are.
 */
export function typeErrors(path) {
  const program = ts.createProgram([path], options, host);
  return ts.getPreEmitDiagnostics(program).map(({ file, start, messageText }) => {
    const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start).line + 1;
    return `line ${line}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
  });
}
