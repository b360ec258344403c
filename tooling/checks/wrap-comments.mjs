#!/usr/bin/env node
/**
 * The second step of npm run format. Wraps comment lines that are wider than the formatter allows, because
 * the formatter does not change comments. Words that do not fit move to the next line of the paragraph, or to
 * a new line.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Sources whose comments begin with `//` or `*`. */
export const wrappedPattern = /\.(ts|mts|mjs|cc|h|cu|cuh)$/;

/** Biome's lineWidth (biome.json). */
const maximumWidth = 110;

/**
 * Matches a line that contains only a comment. The groups are the prefix and the text. A star without a space
 * after it is code: `*pointer = 1;`.
 */
const commentLine = /^(\s*(?:\/\/|\*(?= |$)) ?)(.*)$/;
/** Matches a block comment on a single line. The groups are the indentation and the text. */
const blockInOneLine = /^(\s*)\/\*\*? (.*) \*\/$/;
const listItem = /^(?:[-*] |\d+\. )/;
/**
 * Matches a tag at the start of a line, such as `@param`, but not a package name, which may also begin with
 * @.
 */
const tag = /^@\w+(?!\S)/;
/**
 * Matches the blank before a tag that must begin a new line, because tools do not find tags within a line.
 */
const beforeTag = / (?=@(?:param|returns|throws) )/;
/**
 * Matches the beginning of a line that is not prose: a rule, a table, or a usage line (flags, or a command
 * that is not part of a sentence).
 */
const drawnStart = /^(?:[-=]{3,}|\||\[--|(?:node|npm|npx|mtl) (?!.*[^.][:.] ))/;
/** Returns true if a line is preformatted, for example in columns, and must not be wrapped. */
const isDrawn = (text) => /\S {2,}\S/.test(text) || drawnStart.test(text);

/** Returns the parts of a comment line; undefined for any other line. */
function parse(line) {
  const found = commentLine.exec(line);
  if (found === null) return undefined;
  const [, prefix, rest] = found;
  const text = rest.trimStart();
  return {
    prefix: prefix.trimEnd(),
    indentation: prefix.length - prefix.trimEnd().length + rest.length - text.length,
    text,
  };
}

/** Returns the indentation of the lines that continue a line's paragraph. */
function continuation({ indentation, text }) {
  const item = listItem.exec(text);
  if (item !== null) return indentation + item[0].length;
  return tag.test(text) ? indentation + 2 : indentation;
}

/** Returns true if `next` continues the paragraph of `line`. */
function isContinued(line, next) {
  if (next === undefined || next.prefix !== line.prefix || next.text === '' || isDrawn(next.text))
    return false;
  if (/[.;]$/.test(line.text) && /^(?:--\w|\w+\??: )/.test(next.text)) return false; // explains another name
  return next.indentation === continuation(line) && !listItem.test(next.text) && !tag.test(next.text);
}

/**
 * Returns the end of the last word that fits into a line, or -1 if the line cannot be broken. Code in
 * backticks counts as one word.
 */
function lastBreak(line, start) {
  const isInCode = (position) => line.slice(0, position).split('`').length % 2 === 0;
  let end = line.lastIndexOf(' ', maximumWidth);
  while (end > start && isInCode(end)) end = line.lastIndexOf(' ', end - 1);
  return end > start ? end : -1;
}

/** Returns true if a line is wider than allowed and is a comment that can be wrapped. */
function isTooLong(line) {
  if (line.length <= maximumWidth) return false;
  if (blockInOneLine.test(line)) return true;
  const parsed = parse(line);
  if (parsed === undefined || isDrawn(parsed.text)) return false;
  return lastBreak(line, parsed.prefix.length + parsed.indentation) > 0;
}

/** Returns the line numbers, counted from 1, of the lines that `wrapComments` would break. */
export function longComments(text) {
  return text.split('\n').flatMap((line, index) => (isTooLong(line) ? [index + 1] : []));
}

/** Returns `text` with its comments wrapped to the formatter's width. */
export function wrapComments(text) {
  const lines = text.split('\n');
  for (let index = 0; index < lines.length; index++) {
    const line = lines[index];
    if (!isTooLong(line)) continue;
    const block = blockInOneLine.exec(line);
    if (block !== null) {
      const [, indentation, inner] = block;
      const inside = inner.split(beforeTag).map((part) => `${indentation} * ${part}`);
      lines.splice(index, 1, `${indentation}/**`, ...inside, `${indentation} */`);
      continue;
    }
    const parsed = parse(line);
    const end = lastBreak(line, parsed.prefix.length + parsed.indentation);
    const rest = line.slice(end + 1);
    lines[index] = line.slice(0, end).trimEnd();
    const next = lines[index + 1] === undefined ? undefined : parse(lines[index + 1]);
    const start = parsed.prefix + ' '.repeat(continuation(parsed));
    if (isContinued(parsed, next)) lines[index + 1] = `${start}${rest} ${next.text}`;
    else lines.splice(index + 1, 0, `${start}${rest}`);
  }
  return lines.join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const options = { cwd: root, encoding: 'utf8' };
  const paths = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], options)
    .split('\n')
    .filter((path) => wrappedPattern.test(path))
    .map((path) => join(root, path))
    .filter((path) => existsSync(path)); // git lists deleted files until their deletion is staged
  for (const path of paths) {
    const text = readFileSync(path, 'utf8');
    const wrapped = wrapComments(text);
    if (wrapped !== text) writeFileSync(path, wrapped);
  }
}
