/** Seconds of work compared with which a wait of some 10 us is negligible. */
const enoughSeconds = 0.01;
const mostCalls = 50;

/**
 * Returns the number of calls to enqueue on a GPU before waiting for it, for calls of the given seconds: many
 * short calls, since a launch returns before the kernel has begun, but a single long call, since many would
 * take minutes.
 */
export const callsPerWait = (seconds: number): number =>
  Math.min(mostCalls, Math.max(1, Math.ceil(enoughSeconds / seconds)));
