#!/usr/bin/env node
/**
 * The second half of npm run format: breaks lines of comments in all sources that are wider than the
 * formatter's, which leaves comments as they are. What does not fit goes to the next line of its paragraph,
 * or to a new one.
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
 * A line that is nothing but a comment: what precedes its text, and the text. A star without a space is
 * code: `*pointer = 1;`.
 */
const commentLine = /^(\s*(?:\/\/|\*(?= |$)) ?)(.*)$/;
/** A comment in one line that could be several: indentation and text. */
const blockInOneLine = /^(\s*)\/\*\*? (.*) \*\/$/;
const listItem = /^(?:[-*] |\d+\. )/;
/** Names of packages begin with @ as well. */
const tag = /^@\w+(?!\S)/;
/** Before a tag of its own line, which tools that read comments do not find within another. */
const beforeTag = / (?=@(?:param|returns|throws) )/;
/** How rules, tables and usage begin: flags it may have, or a command and no sentence on it. */
const drawnStart = /^(?:[-=]{3,}|\||\[--|(?:node|npm|npx|mtl) (?!.*[^.][:.] ))/;
/** Columns and the like: lines that mean something as they stand. */
const isDrawn = (text) => /\S {2,}\S/.test(text) || drawnStart.test(text);

/** A line of a comment, or undefined for any other. */
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

/** How far the lines are indented that go on with this one. */
function continuation({ indentation, text }) {
  const item = listItem.exec(text);
  if (item !== null) return indentation + item[0].length;
  return tag.test(text) ? indentation + 2 : indentation;
}

/** Tells whether `next` goes on with the paragraph of `line`. */
function isContinued(line, next) {
  if (next === undefined || next.prefix !== line.prefix || next.text === '' || isDrawn(next.text))
    return false;
  if (/[.;]$/.test(line.text) && /^(?:--\w|\w+\??: )/.test(next.text)) return false; // says what another name means
  return next.indentation === continuation(line) && !listItem.test(next.text) && !tag.test(next.text);
}

/** Where the last word that fits ends, or -1 when one fills the line; code in backticks counts as a word. */
function lastBreak(line, start) {
  const isInCode = (position) => line.slice(0, position).split('`').length % 2 === 0;
  let end = line.lastIndexOf(' ', maximumWidth);
  while (end > start && isInCode(end)) end = line.lastIndexOf(' ', end - 1);
  return end > start ? end : -1;
}

/** Tells whether the line is part of a comment that can be broken. */
function isTooLong(line) {
  if (line.length <= maximumWidth) return false;
  if (blockInOneLine.test(line)) return true;
  const parsed = parse(line);
  if (parsed === undefined || isDrawn(parsed.text)) return false;
  return lastBreak(line, parsed.prefix.length + parsed.indentation) > 0;
}

/** Numbers, from 1, of the lines that `wrapComments` would break. */
export function longComments(text) {
  return text.split('\n').flatMap((line, index) => (isTooLong(line) ? [index + 1] : []));
}

/** The text with comments no wider than the formatter's lines. */
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
    .filter((path) => existsSync(path)); // deleted ones are listed until they are staged
  for (const path of paths) {
    const text = readFileSync(path, 'utf8');
    const wrapped = wrapComments(text);
    if (wrapped !== text) writeFileSync(path, wrapped);
  }
}
