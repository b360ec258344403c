import { describe, expect, it } from 'vitest';
import { readJoinTimeout } from './wait-for-ranks.js';

describe('readJoinTimeout', () => {
  it('reads seconds, and is 300 s where nothing is said', () => {
    expect(readJoinTimeout({ MTL_JOIN_TIMEOUT: '1.5' })).toBe(1500);
    expect(readJoinTimeout({ MTL_JOIN_TIMEOUT: '' })).toBe(300_000);
    expect(readJoinTimeout({})).toBe(300_000);
  });

  it.each(['0', '-1', 'soon', 'Infinity', 'NaN'])('refuses %s', (text) => {
    expect(() => readJoinTimeout({ MTL_JOIN_TIMEOUT: text })).toThrow(
      expect.objectContaining({ code: 'MTL_LAUNCH_ENVIRONMENT' }),
    );
  });
});
