/**
 * Returns CLOCK_MONOTONIC in nanoseconds: the clock that all processes of a host share, and that of
 * @mtl/comm's traces.
 */
export function nowNs(): number {
  return Number(process.hrtime.bigint());
}
