import ts from 'typescript';

/**
 * Parses a source into a tree whose nodes have references to their parents. Docstrings are not parsed,
 * because this would take long.
 */
export function parseSource(path, text) {
  const how = {
    languageVersion: ts.ScriptTarget.Latest,
    jsDocParsingMode: ts.JSDocParsingMode.ParseNone,
  };
  return ts.createSourceFile(path, text, how, true);
}
