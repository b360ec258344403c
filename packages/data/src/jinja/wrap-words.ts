import { characters } from './printing.js';
import type { Runtime } from './runtime.js';
import { TemplateError } from './template-error.js';

export interface WrapOptions {
  readonly width: number;
  readonly breaksWords: boolean;
  readonly breaksHyphens: boolean;
}

const spaces = '[\\t\\n\\v\\f\\r ]';
const atSpaces = new RegExp(`(${spaces}+)`);
const isSpace = new RegExp(`^${spaces}*$`);
// words with hyphens may be broken behind them, and dashes between words are words
const pieces =
  /[\t\n\v\f\r ]+|(?<=[\p{L}\p{N}_!"'&.,?])-{2,}(?=[\p{L}\p{N}_])|[^\t\n\v\f\r ]+?(?:-(?:(?<=[\p{L}_]{2}-)|(?<=[\p{L}_]-[\p{L}_]-))(?=[\p{L}_]-?[\p{L}_])|(?=[\t\n\v\f\r ]|$)|(?<=[\p{L}\p{N}_!"'&.,?])(?=-{2,}[\p{L}\p{N}_]))/gu;

/** The lines of Python's `textwrap.wrap` for a text of one line. */
export function wrapped(text: string, how: WrapOptions, runtime: Runtime): readonly string[] {
  if (how.width <= 0) throw new TemplateError(`invalid width ${how.width} (must be > 0)`);
  const found = how.breaksHyphens ? (text.match(pieces) ?? []) : text.split(atSpaces);
  const chunks = found.filter((chunk) => chunk !== '').map((chunk) => characters(chunk, runtime));
  chunks.reverse();
  const lines: string[] = [];
  while (chunks.length > 0) {
    runtime.budget.step();
    const line = lineOf(chunks, how, lines.length > 0);
    if (line !== '') lines.push(line);
  }
  return lines;
}

/** Takes the chunks of one line off the end. */
function lineOf(chunks: (readonly string[])[], how: WrapOptions, isLater: boolean): string {
  const line: (readonly string[])[] = [];
  let length = 0;
  const blank = (chunk: readonly string[] | undefined) => chunk !== undefined && isSpace.test(chunk.join(''));
  if (isLater && blank(chunks.at(-1))) chunks.pop();
  while (chunks.length > 0 && length + chunks.at(-1)!.length <= how.width) {
    const chunk = chunks.pop()!;
    line.push(chunk);
    length += chunk.length;
  }
  const next = chunks.at(-1);
  if (next !== undefined && next.length > how.width) {
    const room = Math.max(1, how.width - length);
    if (how.breaksWords) {
      const end = breakIn(next, room, how);
      line.push(next.slice(0, end));
      chunks[chunks.length - 1] = next.slice(end);
    } else if (line.length === 0) line.push(chunks.pop()!);
  }
  if (blank(line.at(-1))) line.pop();
  return line.flat().join('');
}

/** A word that is too long is broken behind a hyphen where it has one. */
function breakIn(word: readonly string[], room: number, { breaksHyphens }: WrapOptions): number {
  if (!breaksHyphens || word.length <= room) return room;
  const hyphen = word.lastIndexOf('-', room - 1);
  return hyphen > 0 && word.slice(0, hyphen).some((one) => one !== '-') ? hyphen + 1 : room;
}
