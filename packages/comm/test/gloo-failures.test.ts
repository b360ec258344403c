import { glooProblem } from '@mtl/comm';
import { describe } from 'vitest';
import { commonFailures } from './support/common-failures.js';
import { failingRanks } from './support/failing-ranks.js';

/**
 * Ranks that take themselves for the only one of their host: nothing but Gloo's connections tells them of
 * each other.
 */
const start = failingRanks(() => ({ hosts: [0, 1, 2] }));

describe.skipIf(glooProblem() !== undefined)('over gloo (libgloo-dev), a rank', () => {
  commonFailures({ start, culprit: 2 });
});
