import ts from 'typescript';

/**
 * Parses a source into a tree whose nodes have a reference to their parent. Docstrings are not parsed,
 * because parsing them takes long.
 */
export function parseSource(path, text) {
  const how = {
    languageVersion: ts.ScriptTarget.Latest,
    jsDocParsingMode: ts.JSDocParsingMode.ParseNone,
  };
  return ts.createSourceFile(path, text, how, true);
}
