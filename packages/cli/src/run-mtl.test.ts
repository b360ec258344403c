import { formatError } from '@mtl/errors';
import { describe, expect, it } from 'vitest';
import { createProgram } from './create-program.js';
import { commandOfHelp } from './run-mtl.js';

const nameCommand = (...words: string[]) => commandOfHelp(createProgram(), words)?.name();
const refusal = (...words: string[]): string => {
  try {
    nameCommand(...words);
  } catch (error) {
    return formatError(error);
  }
  return '';
};

describe('commandOfHelp', () => {
  it('finds a command and those in it', () => {
    expect(nameCommand('help', 'data')).toBe('data');
    expect(nameCommand('help', 'data', 'prepare')).toBe('prepare');
    expect(nameCommand('data', 'help', 'prepare')).toBe('prepare');
  });

  it('takes no words at all as a question about the program', () => {
    expect(nameCommand()).toBe('mtl');
  });

  it('leaves everything else to the program', () => {
    for (const words of [['help'], ['data', 'help'], ['data', 'inspect', 'help', 'x'], ['data', '--help']]) {
      expect(nameCommand(...words)).toBeUndefined();
    }
  });

  it('refuses --help of a command that there is not', () => {
    expect(refusal('nonsense', '--help')).toContain(
      "mtl: unknown command 'nonsense'; expected train, run, data, eval",
    );
    expect(refusal('generat', '-h')).toContain('expected generate');
    expect(refusal('data', 'prepar', '--help')).toContain('expected prepare');
    for (const words of [
      ['--help'],
      ['run', 'anything', '--help'],
      ['help', '-h'],
      ['data', 'prepare', '-h'],
    ])
      expect(refusal(...words)).toBe('');
  });

  it('names the nearest command, or those that there are', () => {
    expect(refusal('help', 'generat')).toBe(
      "error[MTL_COMMAND_UNKNOWN]: mtl: unknown command 'generat'; expected generate\n" +
        '  remedy: mtl --help lists its commands and flags',
    );
    expect(refusal('help', 'nonsense')).toContain('expected train, run, data, eval');
    expect(refusal('data', 'help', 'prepar')).toContain('expected prepare');
    expect(refusal('help', 'plan', 'more')).toContain('expected no more words');
  });
});
