import { expect, it } from 'vitest';
import { reportColumns, wrapCommand, wrapText } from './report-text.js';

it('breaks a text at blanks, and gives a longer word a line of its own', () => {
  const long = 'x'.repeat(120);
  const lines = wrapText(`${'word '.repeat(30)}${long} end`, { indent: '    ', taken: 10 }).split('\n');
  expect(lines[0]!.length + 10).toBeLessThanOrEqual(reportColumns);
  expect(lines.slice(1, -2).every((line) => line.startsWith('    word'))).toBe(true);
  expect(lines.at(-2)).toBe(`    ${long}`);
  expect(lines.at(-1)).toBe('    end');
  expect(lines.map((line) => line.trim()).join(' ')).toBe(`${'word '.repeat(30)}${long} end`);
});

it('breaks a command before flags, so that a shell reads it as one', () => {
  const command = `mtl run gpt-train -- ${Array.from({ length: 8 }, (_, at) => `--some-long-flag-${at} value`).join(' ')}`;
  const lines = wrapCommand(command, '   ').split('\n');
  expect(lines.length).toBeGreaterThan(1);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(reportColumns);
  for (const line of lines.slice(1)) expect(line).toMatch(/^ {5}--/);
  for (const line of lines.slice(0, -1)) expect(line).toMatch(/ \\$/);
  expect(lines.map((line) => line.replace(/ \\$/, '').trim()).join(' ')).toBe(command);
});
