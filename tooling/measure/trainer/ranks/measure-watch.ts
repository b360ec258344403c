import type { World } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';
import {
  HostClock,
  MetricsJsonlWriter,
  RankWatch,
  type TrainingEvent,
} from '../../../../packages/trainer/src/index.js';

export interface WatchCostArgument {
  /** The milliseconds for which each step computes. Then ranks all-reduce gradients, as in training. */
  readonly stepMs: number;
  readonly numSteps: number;
  /**
   * How many steps at the beginning are measured separately, because Node.js has not compiled the code of
   * their reports yet.
   */
  readonly numFirstSteps: number;
  /** The metrics.jsonl that rank 0 writes. */
  readonly path: string;
  readonly leastReportMs?: number;
}

/** The time that a `RankWatch` takes on one rank. */
export interface WatchCost {
  /**
   * The milliseconds that each report takes, without the reports of the first steps and the report at the
   * end.
   */
  readonly reportMs: readonly number[];
  readonly stepsMs: number;
  /**
   * The milliseconds that reports take in the first steps and at the end of the run, when a rank waits for
   * all other ranks. They occur only once per run.
   */
  readonly onceMs: number;
}

/**
 * Runs a `RankWatch` on ranks that all compute for the same time. Its report interval is one step; it
 * combines several steps if they are shorter than `leastReportMs`.
 */
export default async function measureWatch(world: World, argument: WatchCostArgument): Promise<WatchCost> {
  const { stepMs, numSteps, numFirstSteps, path, leastReportMs } = argument;
  const { group, rank, size } = world;
  const writer = rank === 0 ? await MetricsJsonlWriter.open({ path }) : undefined;
  const watch = new RankWatch({
    world: group,
    peers: [Array.from({ length: size }, (_, index) => index)],
    hosts: Array.from({ length: size }, () => 'here'),
    interval: 1,
    leastReportMs,
    clock: new HostClock({
      waitedSeconds: () =>
        Object.values(group.statistics()).reduce((sum, each) => sum + each.waitedSeconds, 0),
    }),
    peakBytes: () => 1,
  });
  const gradients = Tensor.zeros({ shape: [1 << 16], dtype: 'float32' });
  const events: TrainingEvent[] = [];
  /**
   * The milliseconds that each report takes: for gathering the values, and for the record, which follows one
   * step later.
   */
  const reportMs: number[] = [];
  let sinceReportMs = 0;
  const timed = (call: () => readonly TrainingEvent[]): void => {
    const started = performance.now();
    const reported = call();
    for (const event of reported) writer?.event(event);
    const ms = performance.now() - started;
    events.push(...reported);
    sinceReportMs += ms;
    if (reported.length === 0) return;
    reportMs.push(sinceReportMs);
    sinceReportMs = 0;
  };
  watch.resume();
  let [numFirstReports, started] = [0, 0];
  for (let step = 1; step <= numSteps; step++) {
    const end = performance.now() + stepMs;
    while (performance.now() < end);
    group.allReduce(gradients).wait();
    timed(() => watch.afterStep({ iteration: step }));
    if (step === numFirstSteps) [numFirstReports, started] = [reportMs.length, performance.now()];
  }
  const stepsMs = performance.now() - started;
  const numReports = reportMs.length;
  timed(() => watch.end(numSteps));
  gradients.dispose();
  writer?.close();
  for (const { fields } of events.filter(({ type }) => type === 'ranks')) {
    const wrong = (fields.compute_ms as number[]).find((ms) => !(ms >= stepMs && ms < 3 * stepMs));
    if (wrong !== undefined) throw new Error(`a step of ${stepMs} ms is said to take ${wrong} ms`);
  }
  const sum = (values: readonly number[]): number => values.reduce((total, ms) => total + ms, 0);
  return {
    reportMs: reportMs.slice(numFirstReports, numReports),
    stepsMs,
    onceMs: sum(reportMs.slice(0, numFirstReports)) + sum(reportMs.slice(numReports)),
  };
}
