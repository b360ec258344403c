import type { World } from '@mtl/comm';
import { clockOffset, nowNs } from '../../src/recording/clock.js';

/**
 * Returns the offset that is measured for a clock that is fast by a given time, and the offset if clocks are
 * declared to be shared.
 */
export default function askClock(world: World, fastByNs: readonly number[]) {
  const { group, rank } = world;
  const options = { group, now: () => nowNs() + fastByNs[rank]!, device: 'cpu' } as const;
  const started = nowNs();
  const estimated = clockOffset({ ...options, isShared: false });
  return { estimated, shared: clockOffset(options), tookNs: nowNs() - started };
}
