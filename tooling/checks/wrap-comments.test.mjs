import { expect, it } from 'vitest';
import { longComments, wrapComments } from './wrap-comments.mjs';

const words = (count) => Array.from({ length: count }, (_, index) => `word${index}`).join(' ');

/** Wraps comments, and checks that only line breaks and line prefixes have changed. */
function wrapped(text) {
  const result = wrapComments(text);
  expect(longComments(result)).toEqual([]);
  expect(wrapComments(result)).toBe(result);
  const bare = (comment) => comment.replaceAll(/^\s*(\/\/|\/\*\*|\*\/|\*)/gm, ' ').split(/\s+/);
  const isWord = (word) => word !== '' && word !== '/**' && word !== '*/';
  expect(bare(result).filter(isWord)).toEqual(bare(text).filter(isWord));
  return result.split('\n');
}

it('moves what does not fit to the next line of the paragraph, and on', () => {
  const lines = wrapped(`  // ${words(17)}\n  // ${words(16)}\n  // the end\n  const x = 1;`);
  expect(lines).toHaveLength(4);
  expect(lines[1]).toMatch(/^ {2}\/\/ word16 word0 .* word14$/);
  expect(lines[2]).toBe('  // word15 the end');
  expect(lines[3]).toBe('  const x = 1;');
});

it('makes a block of several lines of one in a line', () => {
  const lines = wrapped(`  /** ${words(20)} */\n  readonly x: number;`);
  expect(lines[0]).toBe('  /**');
  expect(lines.at(-2)).toBe('   */');
});

it('gives the tags of a block that was one line a line each', () => {
  const lines = wrapped(`/** ${words(12)}. @returns a number @throws DataError of a kind */`);
  expect(lines.slice(2)).toEqual([' * @returns a number', ' * @throws DataError of a kind', ' */']);
});

it('breaks before code in backticks, not within', () => {
  const lines = wrapped(`// ${'x'.repeat(100)} \`{ one: true }\`, two`);
  expect(lines).toEqual([`// ${'x'.repeat(100)}`, '// `{ one: true }`, two']);
});

it('breaks list items, and prose that begins with a flag or a command', () => {
  expect(wrapped(`// - ${words(20)}`)[1]).toMatch(/^\/\/ {3}word16/);
  expect(wrapped(`// --tp ${words(20)}`)[1]).toMatch(/^\/\/ word16/);
  expect(wrapped(`// npm run a: ${words(20)}`)[1]).toMatch(/^\/\/ word/);
});

it('indents what follows a tag or the mark of a list', () => {
  expect(wrapped(`/**\n * @throws ${words(20)}\n */`)[2]).toMatch(/^ \* {3}word/);
  expect(wrapped(` * @scope/package ${words(20)}`)[1]).toMatch(/^ \* word/);
  expect(wrapped(`// * ${words(20)}\n//   ${words(3)}`)[1]).toMatch(/^\/\/ {3}word16 .* word0 word1 word2$/);
});

it('leaves the paragraphs, list items, tags, columns and definitions that follow where they are', () => {
  const after = [
    '//',
    '// * an item',
    '// @throws never',
    '// a  column',
    '//   indented',
    '// name: a meaning',
    '// node a.mjs FILE',
    '// [--flag]',
    '// --flag says what it means',
  ];
  for (const line of after) expect(wrapped(`// ${words(20)}.\n${line}`).at(-1)).toBe(line);
});

it('leaves code, drawings and words without a space alone', () => {
  const long = 'x'.repeat(120);
  const texts = [
    `const a = '${words(20)}';`,
    `  *pointer = ${words(20)};`,
    `// a  ${words(20)}`,
    `// ${long}`,
    `// \`code ${words(20)}\``,
    ` * | ${words(20)} |`,
    ` * --- ${words(20)} ---`,
    ` * node a.mjs ${words(20)}`,
    ` * [--flag] ${words(20)}`,
  ];
  for (const text of texts) {
    expect(longComments(text)).toEqual([]);
    expect(wrapComments(text)).toBe(text);
  }
});
