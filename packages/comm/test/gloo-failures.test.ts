import { glooProblem } from '@mtl/comm';
import { describe, expect, it } from 'vitest';
import { commonFailures } from './support/common-failures.js';
import { collectErrors, failingRanks, timeoutMs } from './support/failing-ranks.js';

/**
 * Starts ranks that each seem to be alone on their host, so that they can detect failures only through
 * Gloo's connections.
 */
const start = failingRanks(() => ({ hosts: [0, 1, 2] }));

describe.skipIf(glooProblem() !== undefined)('over gloo (libgloo-dev), a rank', () => {
  commonFailures({ start, culprit: 2 });

  it('of the same host is named by the one that waits for its message, whatever place it has there', async () => {
    const [first] = start('silentSender', { hosts: [0, 1, 1, 0], timeoutMs });
    const [error] = await collectErrors([first!]);
    expect(error).toMatchObject({ code: 'MTL_TIMEOUT', details: { rank: 3, operation: 'receive' } });
    expect(error!.message).toContain(`rank 3 did not come within ${timeoutMs / 1000} s`);
  });
});
