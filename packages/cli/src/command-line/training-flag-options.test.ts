import { describe, expect, it } from 'vitest';
import { newCommand } from './new-command.js';
import { trainingFlagOptions, trainingFlagValues } from './training-flag-options.js';

const names = ['device', 'cuda-graphs', 'sequence-parallel', 'tensor-model-parallel-size'] as const;

function command() {
  const made = newCommand('train', 'trains');
  for (const option of trainingFlagOptions(names)) made.addOption(option);
  return made;
}

const valuesOf = (...argv: string[]) =>
  trainingFlagValues(command().parse(argv, { from: 'user' }).opts(), names);

describe('flags of a training run on another command', () => {
  it('have their names, and switches both ways', () => {
    expect(valuesOf()).toEqual({});
    expect(valuesOf('--no-cuda-graphs', '--sequence-parallel', '--tensor-model-parallel-size', '2')).toEqual({
      'cuda-graphs': false,
      'sequence-parallel': true,
      'tensor-model-parallel-size': 2,
    });
    expect(() => valuesOf('--no-device')).toThrow(expect.objectContaining({ code: 'MTL_FLAG_UNKNOWN' }));
  });

  it.each([
    [['--cuda-graphs', '--no-cuda-graphs']],
    [['--no-cuda-graphs', '--cuda-graphs']],
    [['--no-cuda-graphs', '--no-cuda-graphs']],
  ])('are given once: %j', (argv) => {
    expect(() => valuesOf(...argv)).toThrow(
      expect.objectContaining({
        code: 'MTL_FLAG_REPEATED',
        message: expect.stringContaining('--cuda-graphs is given twice'),
      }),
    );
  });

  it('have help of their own, without what turns switches off', () => {
    const help = command().helpInformation();
    expect(help).toContain('--cuda-graphs');
    expect(help).not.toContain('--no-');
  });
});
