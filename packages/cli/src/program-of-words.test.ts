import type { Command } from 'commander';
import { expect, it } from 'vitest';
import { createProgram } from './create-program.js';
import { programOfWords } from './program-of-words.js';

const listFlags = (program: Command, name: string): readonly string[] =>
  program.commands.find((each) => each.name() === name)!.options.map(({ flags }) => flags);

it('shows commands that it has not loaded as they are', async () => {
  expect((await programOfWords(['--help'])).helpInformation()).toBe(createProgram().helpInformation());
});

it('loads the commands that words name, and all for a script that completes them', async () => {
  const whole = createProgram();
  const named = await programOfWords(['--debug', 'runs', 'diff']);
  expect(listFlags(named, 'runs')).toEqual(listFlags(whole, 'runs'));
  expect(listFlags(named, 'plan')).toEqual(['--debug']);
  const all = await programOfWords(['completion', 'bash']);
  for (const { name } of whole.commands.map((each) => ({ name: each.name() }))) {
    expect(listFlags(all, name)).toEqual(listFlags(whole, name));
  }
});
