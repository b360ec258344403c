import { UsageError } from '@mtl/errors';

/**
 * Whether a kind of GELU is the exact one.
 *
 * @throws UsageError `MTL_ARGUMENT` for a kind that is none
 */
export function isErf(kind: string): boolean {
  if (kind === 'erf' || kind === 'tanh') return kind === 'erf';
  throw new UsageError('MTL_ARGUMENT', `GELU of kind ${String(kind)}`, { expected: "'tanh' or 'erf'" });
}
