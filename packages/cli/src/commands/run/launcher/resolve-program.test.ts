import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { resolveProgram } from './resolve-program.js';

describe('resolveProgram', () => {
  it.each(['gpt', 'bert'])(
    '%s is the training program of this package, where there is no such file',
    (name) => {
      const script = resolveProgram(name);
      expect(script.endsWith(`/cli/bin/${name}-train.mjs`)).toBe(true);
      expect(existsSync(script)).toBe(true);
    },
  );

  it('names them where a program is not found', () => {
    expect(() => resolveProgram('llama')).toThrowError(
      expect.objectContaining({ code: 'MTL_PROGRAM', expected: expect.stringContaining('gpt, bert or mtl') }),
    );
  });
});
