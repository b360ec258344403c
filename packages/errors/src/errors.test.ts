import { describe, expect, it } from 'vitest';
import {
  ConfigurationError,
  chooseExitCode,
  formatError,
  KernelError,
  MtlError,
  nearestName,
} from './index.js';

describe('MtlError', () => {
  it('is recognised across copies of the package by its marker', () => {
    const foreign = Object.assign(new Error('x'), { [Symbol.for('mtl.error')]: true });
    expect(MtlError.isInstance(foreign)).toBe(true);
    expect(MtlError.isInstance(new Error('x'))).toBe(false);
  });

  it('prints code, message, expectation and remedy', () => {
    const error = new ConfigurationError(
      'MTL_HEADS',
      '--num-attention-heads 5 does not divide --hidden-size 64',
      {
        expected: '4 or 8',
        remedy: 'pass --num-attention-heads 4',
      },
    );
    expect(formatError(error)).toBe(
      'error[MTL_HEADS]: --num-attention-heads 5 does not divide --hidden-size 64; expected 4 or 8\n' +
        '  remedy: pass --num-attention-heads 4',
    );
  });

  it('has a remedy for what systems refuse', () => {
    const full = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    expect(formatError(full)).toBe(
      'error[MTL_SYSTEM]: ENOSPC: no space left on device, write\n' +
        '  remedy: free space on that file system, or write to another one',
    );
    const other = Object.assign(new Error('no idea'), { code: 'E_OTHER' });
    expect(formatError(other)).toBe('error[MTL_UNEXPECTED]: no idea\n  --debug shows where it came from');
    expect(formatError(null)).toContain('error[MTL_UNEXPECTED]: null');
  });

  it('exits with 2 for wrong input and 1 for failures', () => {
    expect(chooseExitCode(new ConfigurationError('MTL_A', 'a'))).toBe(2);
    expect(chooseExitCode(new KernelError('MTL_B', 'b'))).toBe(1);
    expect(chooseExitCode(new Error('c'))).toBe(1);
  });

  it('shows a stack only when asked', () => {
    expect(formatError(new Error('boom'))).not.toContain('errors.test');
    expect(formatError(new Error('boom'), { debug: true })).toContain('errors.test');
  });
});

describe('nearestName', () => {
  it('finds a misspelt name and stays silent when nothing is near', () => {
    expect(nearestName('num-layer', ['num-layers', 'seq-length'])).toBe('num-layers');
    expect(nearestName('svg', ['save', 'lr'])).toBeUndefined();
    expect(nearestName('ls', ['save', 'lr'])).toBe('lr');
    expect(nearestName('qpq', ['mnli', 'qqp', 'race'])).toBe('qqp');
    expect(nearestName('zzzzzz', ['num-layers', 'seq-length'])).toBeUndefined();
    expect(nearestName('h100', ['a100-80gb', 'h100-80gb-megatron', 'h100-80gb'])).toBe('h100-80gb');
    expect(nearestName('h1', ['h100-80gb-megatron'])).toBeUndefined();
  });
});
