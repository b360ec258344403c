import ts from 'typescript';

/**
 * Parses a source. Docstrings are not parsed, which saves much time. Nodes have a reference to their parent.
 */
export function parseSource(path, text) {
  const how = {
    languageVersion: ts.ScriptTarget.Latest,
    jsDocParsingMode: ts.JSDocParsingMode.ParseNone,
  };
  return ts.createSourceFile(path, text, how, true);
}
