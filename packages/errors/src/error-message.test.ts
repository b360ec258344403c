import { describe, expect, it } from 'vitest';
import { ConfigurationError, MtlError, packError, unpackError } from './index.js';

const unexpected = { name: 'DataError', code: 'MTL_DATA_WORKER' } as const;

describe('an error between threads', () => {
  it('keeps its class and all its fields', () => {
    const error = new ConfigurationError('MTL_A', 'what', {
      expected: 'other',
      remedy: 'do it',
      details: { line: 3 },
      exitCode: 1,
    });
    const there = unpackError(structuredClone(packError(error, unexpected)));
    expect(there).toBeInstanceOf(ConfigurationError);
    expect(there).toMatchObject({
      name: 'ConfigurationError',
      code: 'MTL_A',
      message: 'what',
      expected: 'other',
      remedy: 'do it',
      details: { line: 3 },
      exitCode: 1,
    });
  });

  it('stays one of the family where its class is not known, and becomes one where it was none', () => {
    const own = Object.assign(new MtlError('MTL_B', 'b'), { name: 'OwnError' });
    expect(unpackError(structuredClone(packError(own, unexpected)))).toMatchObject({
      code: 'MTL_B',
      remedy: undefined,
    });
    const foreign = unpackError(structuredClone(packError(new TypeError('no'), unexpected)));
    expect(foreign).toMatchObject({ name: 'DataError', code: 'MTL_DATA_WORKER', exitCode: 2 });
    expect(foreign.message).toContain('TypeError: no');
    expect(unpackError(packError('thrown text', unexpected)).message).toBe('thrown text');
  });
});
