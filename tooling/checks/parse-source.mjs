import ts from 'typescript';

/** Parses a source without its docstrings, which take much of the time; nodes know their parents. */
export function parseSource(path, text) {
  const how = {
    languageVersion: ts.ScriptTarget.Latest,
    jsDocParsingMode: ts.JSDocParsingMode.ParseNone,
  };
  return ts.createSourceFile(path, text, how, true);
}
