import { formatError, type MtlError } from '@mtl/errors';
import { describe, expect, it } from 'vitest';
import { catchError, configure, withFlags } from './configure.js';

/**
 * Flags that are appended to `small`, the number of processes, the expected error code, and a pattern of the
 * error's text.
 */
export type Contradiction = readonly [line: string, worldSize: number, code: string, text: RegExp];

export interface RefusalsOptions {
  /** Number of errors that are expected to advise a value to pass. */
  readonly numAdvised: number;
}

/** Defines tests that flags are rejected, and that following the advice of the error works. */
export function refusals(contradictions: readonly Contradiction[], { numAdvised }: RefusalsOptions): void {
  const advised = contradictions.filter(([line, worldSize]) =>
    /^pass --\S+ [\d.]+/.test(catchError(withFlags(line), worldSize).remedy ?? ''),
  );

  describe('flags that cannot work together', () => {
    it.each(contradictions)('are refused: %s with %d processes', (line, worldSize, code, text) => {
      const error = catchError(withFlags(line), worldSize);
      expect(error.code).toBe(code);
      expect(formatError(error)).toMatch(text);
      expect(error.remedy ?? error.expected).toBeDefined();
    });

    it.each(advised)('are fixed by following the advice: %s with %d processes', (line, worldSize, code) => {
      const remedy = catchError(withFlags(line), worldSize).remedy!;
      const [, name, value] = /^pass --(\S+) ([\d.]+(?: [\d.]+)*)/.exec(remedy)!;
      const fixed = `${withFlags(line).replace(new RegExp(` --${name}(?: [^-\\s]\\S*)+`), '')} --${name} ${value}`;
      let next: string | undefined;
      try {
        configure(fixed, worldSize);
      } catch (error) {
        next = (error as MtlError).code;
      }
      expect([code, 'MTL_FLAG_ARGUMENT', 'MTL_FLAG_VALUE']).not.toContain(next);
    });

    it('come with advice where a value would do', () => {
      expect(advised).toHaveLength(numAdvised);
    });
  });
}
