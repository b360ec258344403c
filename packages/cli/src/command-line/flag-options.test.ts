import { fineTuningFlags } from '@mtl/bert-tasks';
import { describe, expect, it } from 'vitest';
import { addFlags } from './flag-options.js';
import { newCommand } from './new-command.js';

const { device, 'sequence-parallel': sequenceParallel, 'valid-data': validData } = fineTuningFlags;
const { 'cuda-graphs': cudaGraphs, 'tensor-model-parallel-size': tensorSize } = fineTuningFlags;
const flags = {
  device,
  'cuda-graphs': cudaGraphs,
  'sequence-parallel': sequenceParallel,
  'tensor-model-parallel-size': tensorSize,
  'valid-data': validData,
};

const command = () => addFlags(newCommand('train', 'trains'), flags);
const parseValues = (...argv: string[]) => command().parse(argv, { from: 'user' }).opts();

describe('flags of a schema on a command', () => {
  it('have their names, switches both ways, lists all values that follow', () => {
    expect(parseValues()).toEqual({});
    expect(
      parseValues(
        ...['--no-cuda-graphs', '--sequence-parallel', '--tensor-model-parallel-size', '2'],
        ...['--valid-data', 'a', 'b'],
      ),
    ).toEqual({
      cudaGraphs: false,
      sequenceParallel: true,
      tensorModelParallelSize: 2,
      validData: ['a', 'b'],
    });
    expect(() => parseValues('--no-device')).toThrow(expect.objectContaining({ code: 'MTL_FLAG_UNKNOWN' }));
  });

  it.each([
    [['--cuda-graphs', '--no-cuda-graphs']],
    [['--no-cuda-graphs', '--cuda-graphs']],
    [['--no-cuda-graphs', '--no-cuda-graphs']],
  ])('are given once: %j', (argv) => {
    expect(() => parseValues(...argv)).toThrow(
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
