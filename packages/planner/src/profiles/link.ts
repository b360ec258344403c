import { z } from 'zod';
import { constant } from './constant.js';

/** What ranks communicate over. */
export const link = z.strictObject({
  /** Of one GPU, in one direction. */
  bytesPerSecond: constant,
  /** Part of it that large transfers reach. */
  efficiency: constant,
  /** Of one step of a ring. */
  latencySeconds: constant,
});

export type Link = z.infer<typeof link>;
