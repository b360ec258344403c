import { launchError } from './launch-error.js';
import type { Variables } from './process-environment.js';

const defaultSeconds = 300;

/**
 * How long processes wait for each other at the start, in milliseconds: MTL_JOIN_TIMEOUT (seconds), else 300
 * s.
 *
 * @throws ConfigurationError MTL_LAUNCH_ENVIRONMENT
 */
export function readJoinTimeout({ MTL_JOIN_TIMEOUT: text }: Variables): number {
  const seconds = text === undefined || text === '' ? defaultSeconds : Number(text);
  if (seconds > 0 && seconds <= 1e6) return seconds * 1000;
  throw launchError(`MTL_JOIN_TIMEOUT=${text}`, {
    expected: 'seconds, above 0 and at most 1000000',
    remedy: 'set it to how long processes shall wait for each other at the start, or leave it out for 300',
  });
}
