import type { World } from '@mtl/comm';
import { DeviceClock, HostClock, RankWatch, type TrainingEvent } from '../../src/index.js';

export interface WatchRanksArgument {
  readonly slowRank: number;
  /** Steps in which the slow rank computes 1.3 times as long; the others wait for it. */
  readonly slowSteps: readonly number[];
  readonly numSteps: number;
  /** The least milliseconds between two reports. Default: reports after every interval. */
  readonly leastReportMs?: number | 'default';
  /** The side that waits for communication. Default: the host. */
  readonly waits?: 'host' | 'device';
  /** Groups of ranks that compute the same. Default: all ranks are in one pipeline stage. */
  readonly peers?: ReadonlyArray<readonly number[]>;
}

/** Watches ranks with simulated clocks, which advance by steps of 100 ms and by pauses of any length. */
export default async function watchRanks(
  world: World,
  {
    slowRank,
    slowSteps,
    numSteps,
    leastReportMs = 0,
    waits = 'host',
    peers = [[0, 1, 2]],
  }: WatchRanksArgument,
): Promise<readonly TrainingEvent[]> {
  const { rank } = world;
  let [ms, waitedSeconds] = [0, 0];
  const measure = (task: () => void) => {
    const [beginMs, waitedBefore] = [ms, waitedSeconds];
    task();
    const waitedMs = 1000 * (waitedSeconds - waitedBefore);
    const computeMs = ms - beginMs - waitedMs;
    return { read: () => ({ computeMs, waitedMs }) };
  };
  const deviceClock = waits === 'device' ? new DeviceClock({ waits: { measure } }) : undefined;
  const watch = new RankWatch({
    world: world.group,
    clock: deviceClock ?? new HostClock({ waitedSeconds: () => waitedSeconds, now: () => ms }),
    peakBytes: () => 10 * (rank + 1),
    interval: 2,
    peers,
    hosts: ['a', 'b', 'c'],
    leastIntervalMs: 0,
    ...(leastReportMs === 'default' ? {} : { leastReportMs }),
  });
  watch.resume();
  const events: TrainingEvent[] = [];
  for (let step = 1; step <= numSteps; step++) {
    const isSlow = slowSteps.includes(step);
    const passes = (): void => {
      ms += isSlow ? 130 : 100;
      if (isSlow && rank !== slowRank) waitedSeconds += 0.03;
    };
    watch.aroundPasses(step, passes);
    events.push(...watch.afterStep({ iteration: step }));
    watch.pause();
    ms += rank * 1000;
    waitedSeconds += rank;
    watch.resume();
  }
  events.push(...watch.end(numSteps));
  return events;
}
