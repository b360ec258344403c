import { CommunicationError, ConfigurationError, type MtlError } from '@mtl/errors';
import type { Verdict } from './verdict.js';

/**
 * The error that a job ends with: which rank failed and how, or the wrong input in the words of the ranks,
 * which need no comment.
 *
 * @param attempt how often the job was restarted
 */
export function jobFailure({ message, exitCode, details, input }: Verdict, attempt: number): MtlError {
  const [, code, what, remedy] =
    /^error\[(\w+)\]: (.*?)(?:\n {2}remedy: (.*))?$/s.exec(input?.error ?? '') ?? [];
  if (code === undefined) {
    const afterRestarts = attempt === 0 ? '' : ` (after ${attempt} restarts)`;
    return new CommunicationError('MTL_RANK_FAILED', `${message}${afterRestarts}`, { exitCode, details });
  }
  const [only, ...more] = input!.onlyRanks;
  const whose =
    only === undefined ? '' : `${more.length === 0 ? 'rank' : 'ranks'} ${[only, ...more].join(', ')}: `;
  return new ConfigurationError(code as `MTL_${string}`, `${whose}${what}`, {
    ...(remedy === undefined ? {} : { remedy }),
    details,
  });
}
