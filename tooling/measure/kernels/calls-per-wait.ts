/** Compared with so much work, a wait of some 10 us is negligible. */
const enoughSeconds = 0.01;
const mostCalls = 50;

/**
 * Returns the number of calls of so many seconds each to enqueue on a GPU before it is waited for: many short
 * ones, since a launch returns before the kernel has begun, and one of those that take long, which would take
 * minutes.
 */
export const callsPerWait = (seconds: number): number =>
  Math.min(mostCalls, Math.max(1, Math.ceil(enoughSeconds / seconds)));
