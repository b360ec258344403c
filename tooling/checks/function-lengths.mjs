import ts from 'typescript';
import { parseSource } from './parse-source.mjs';

/** The maximum number of lines of a function, by the language of its file. */
const mostLines = { script: 100, native: 150 };

/**
 * Returns the functions in a source that are too long for readers, as `{ line, name, lines, most }`. A
 * callback of `describe` is a group of tests, which is not checked as a whole, but each of its tests is
 * checked.
 */
export function longFunctions(path, text) {
  if (/\.(ts|mts|mjs)$/.test(path)) return longScriptFunctions(path, text);
  return /\.(cc|h|cu|cuh)$/.test(path) ? longNativeFunctions(text) : [];
}

function longScriptFunctions(path, text) {
  if (text.split('\n').length <= mostLines.script) return [];
  const source = parseSource(path, text);
  const lineAt = (position) => source.getLineAndCharacterOfPosition(position).line + 1;
  const found = [];
  const visit = (node) => {
    if (ts.isFunctionLike(node) && node.body !== undefined && !isChapter(node)) {
      const line = lineAt(node.getStart(source));
      const lines = lineAt(node.getEnd()) - line + 1;
      if (lines > mostLines.script) {
        found.push({ line, name: nameFunction(node, source), lines, most: mostLines.script });
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

function isChapter({ parent }) {
  return ts.isCallExpression(parent) && /^describe\b/.test(parent.expression.getText());
}

function nameFunction(node, source) {
  const named = node.name ?? node.parent.name;
  return named === undefined ? 'a function without a name' : named.getText(source);
}

/** Matches the words before a block that is not a function. */
const scopes =
  /^\s*(?:template\s*<.*>\s*)?(?:inline\s+)?(namespace|class|struct|union|enum|extern "C")\b[^()]*$/s;

/**
 * Finds long functions in native code by their braces. A function is an outermost block that is neither a
 * scope nor a list of values.
 */
function longNativeFunctions(text) {
  const code = withoutTexts(text);
  const found = [];
  const blocks = [];
  let headerStart = 0;
  for (let at = 0; at < code.length; at++) {
    const character = code[at];
    if (character === '{') {
      const header = code.slice(headerStart, at);
      const isInside = blocks.some(({ isFunction }) => isFunction);
      const isFunction = !isInside && header.includes('(') && !scopes.test(header) && !/=\s*$/.test(header);
      const start = headerStart + header.search(/\S|$/);
      blocks.push({ isFunction, start, header });
      headerStart = at + 1;
    } else if (character === '}') {
      const block = blocks.pop();
      if (block?.isFunction) {
        const line = findLine(code, block.start);
        const lines = findLine(code, at) - line + 1;
        const name = block.header.split('(')[0].trim().split(/\s/).at(-1);
        if (lines > mostLines.native) found.push({ line, name, lines, most: mostLines.native });
      }
      headerStart = at + 1;
    } else if (character === ';') {
      headerStart = at + 1;
    }
  }
  return found;
}

const findLine = (text, position) => text.slice(0, position).split('\n').length;

/**
 * Replaces comments, strings and preprocessor lines by blanks, because their braces need not match. Line
 * numbers do not change.
 */
function withoutTexts(text) {
  const blank = (part) => part.replace(/[^\n]/g, ' ');
  return text
    .replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'/g, blank)
    .replace(/^[ \t]*#(?:[^\n]*\\\n)*[^\n]*/gm, blank);
}
