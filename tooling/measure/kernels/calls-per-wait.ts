/** Seconds of work that make a wait of some 10 us negligible. */
const enoughSeconds = 0.01;
const mostCalls = 50;

/**
 * Returns the number of calls to enqueue on a GPU before waiting for it, for calls of the given duration in
 * seconds. Many short calls are needed, because a launch returns before the kernel has begun. A single long
 * call is enough, and many would take minutes.
 */
export const callsPerWait = (seconds: number): number =>
  Math.min(mostCalls, Math.max(1, Math.ceil(enoughSeconds / seconds)));
