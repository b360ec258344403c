import type { World } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';
import { MetricsJsonlWriter, RankWatch, type TrainingEvent } from '../../src/index.js';

export interface WatchCostArgument {
  /** Computation of a step, after which ranks add something up, as they do in training. */
  readonly stepMs: number;
  readonly numSteps: number;
  /** The metrics.jsonl that rank 0 writes. */
  readonly path: string;
  readonly leastReportMs?: number;
}

/** What the watch took of a rank. */
export interface WatchCost {
  readonly numReports: number;
  readonly watchMs: number;
  readonly stepsMs: number;
}

/** Watches ranks that compute the same, with reports at every multiple of one step that is allowed. */
export default async function measureWatch(world: World, argument: WatchCostArgument): Promise<WatchCost> {
  const { stepMs, numSteps, path, leastReportMs } = argument;
  const { group, rank, size } = world;
  const writer = rank === 0 ? await MetricsJsonlWriter.open({ path }) : undefined;
  const watch = new RankWatch({
    world: group,
    peers: [Array.from({ length: size }, (_, index) => index)],
    hosts: Array.from({ length: size }, () => 'here'),
    device: 'cpu',
    interval: 1,
    leastReportMs,
    waitedSeconds: () => Object.values(group.statistics()).reduce((sum, each) => sum + each.waitedSeconds, 0),
    peakBytes: () => 1,
  });
  const gradients = Tensor.zeros({ shape: [1 << 16], dtype: 'float32' });
  const events: TrainingEvent[] = [];
  let watchMs = 0;
  const timed = (call: () => readonly TrainingEvent[]): void => {
    const started = performance.now();
    const reported = call();
    for (const event of reported) writer?.event(event);
    watchMs += performance.now() - started;
    events.push(...reported);
  };
  watch.resume();
  const started = performance.now();
  for (let step = 1; step <= numSteps; step++) {
    const end = performance.now() + stepMs;
    while (performance.now() < end);
    group.allReduce(gradients).wait();
    timed(() => watch.step(step));
  }
  timed(() => watch.end(numSteps));
  const stepsMs = performance.now() - started;
  gradients.dispose();
  writer?.close();
  const reports = events.filter(({ type }) => type === 'ranks');
  for (const { fields } of reports) {
    const wrong = (fields.compute_ms as number[]).find((ms) => !(ms >= stepMs && ms < 3 * stepMs));
    if (wrong !== undefined) throw new Error(`a step of ${stepMs} ms is said to take ${wrong} ms`);
  }
  return { numReports: reports.length, watchMs, stepsMs };
}
