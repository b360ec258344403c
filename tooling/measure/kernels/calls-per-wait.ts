/** The seconds of work that make a wait of about 10 us negligible. */
const enoughSeconds = 0.01;
const mostCalls = 50;

/**
 * Returns how many calls to enqueue on a GPU before waiting for it, if a call takes the given number of
 * seconds. Many short calls are needed, because a launch returns before the kernel has begun. A single long
 * call is enough, and many long calls would take minutes.
 */
export const callsPerWait = (seconds: number): number =>
  Math.min(mostCalls, Math.max(1, Math.ceil(enoughSeconds / seconds)));
