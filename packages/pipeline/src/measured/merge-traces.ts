import type { ChromeTrace, TraceEvent } from '../pictures/chrome-trace.js';
import type { RecordedSpan } from './pipeline-recorder.js';

/**
 * A finished operation of a process group, in the form of `TraceEntry` in @mtl/comm. Times are measured as in
 * RecordedSpan.
 */
export interface RecordedOperation {
  readonly group: string;
  readonly operation: string;
  /**
   * The peer of a message or the root of a broadcast, as a rank in the group; -1 for all other operations.
   */
  readonly peer: number;
  readonly sequence: number;
  readonly bytes: number;
  readonly postedNs: number;
  readonly startedNs: number;
  readonly doneNs: number;
  readonly waitedFromNs: number;
  readonly waitDoneNs: number;
}

/** A rank's activities, with times on its own clock. */
export interface RankTrace {
  /** The rank's index among all ranks of the job. */
  readonly rank: number;
  /** Identifies the rank's pipeline by the global rank of the pipeline's first rank. */
  readonly pipeline: number;
  /** The rank's position in the pipeline. */
  readonly stage: number;
  /** How many nanoseconds to add to the rank's times, to convert them to the clock of rank 0. */
  readonly clockOffsetNs: number;
  readonly spans: readonly RecordedSpan[];
  readonly operations: readonly RecordedOperation[];
}

/** The value of `otherData.format` in traces made by `mergeTraces`. */
export const traceFormat = 'mtl pipeline trace 1';

const names: Readonly<Record<RecordedSpan['kind'], string>> = {
  F: 'F',
  B: 'B',
  I: 'I',
  W: 'W',
  wait: 'wait',
  step: 'step',
  evaluation: 'evaluation',
  optimizer: 'optimizer',
  reduce: 'reduce',
};

/** Nanoseconds per microsecond, the unit of the Trace Event Format. */
const microsecond = 1000;

/**
 * Formats the activities of all ranks as a Chrome trace. Times are on the clock of rank 0, shifted to start
 * at 0. Each rank is shown as a process. Its first row contains the passes, and the next rows are its
 * communication queues with all sends, receives and collectives. `args` of an operation contains the times at
 * which it was posted and waited for.
 */
export function mergeTraces(ranks: readonly RankTrace[]): ChromeTrace {
  const starts = ranks.flatMap(({ spans, operations, clockOffsetNs }) => [
    ...spans.map(({ startNs }) => startNs + clockOffsetNs),
    ...operations.map(({ postedNs }) => postedNs + clockOffsetNs),
  ]);
  const originNs = starts.reduce((least, start) => Math.min(least, start), Number.POSITIVE_INFINITY);
  return {
    traceEvents: ranks.flatMap((trace) => listEvents(trace, originNs)),
    displayTimeUnit: 'ms',
    otherData: {
      format: traceFormat,
      ranks: ranks.map(({ rank, pipeline, stage, clockOffsetNs }) => ({
        rank,
        pipeline,
        stage,
        clockOffsetNs,
      })),
    },
  };
}

function listEvents(
  { rank, pipeline, stage, clockOffsetNs, spans, operations }: RankTrace,
  originNs: number,
) {
  const convertTime = (ns: number): number => (ns + clockOffsetNs - originNs) / microsecond;
  const label = (name: string, tid: number, args: Readonly<Record<string, unknown>>): TraceEvent => ({
    name,
    ph: 'M',
    pid: rank,
    tid,
    args,
  });
  const events: TraceEvent[] = [
    label('process_name', 0, { name: `rank ${rank}: stage ${stage} of pipeline ${pipeline}` }),
    label('process_sort_index', 0, { sort_index: rank }),
    label('thread_name', 0, { name: 'passes' }),
  ];
  for (const { kind, chunk, microBatch, startNs, endNs } of spans) {
    const which = chunk === undefined ? '' : ` ${chunk}.${microBatch}`;
    const time = { ts: convertTime(startNs), dur: (endNs - startNs) / microsecond };
    const args = chunk === undefined ? {} : { chunk, microBatch };
    events.push({ name: `${names[kind]}${which}`, ph: 'X', cat: kind, pid: rank, tid: 0, ...time, args });
  }
  // a queue runs its operations one after the other, so one row per queue is enough
  const rows = [...new Set(operations.map(nameQueue))].sort();
  rows.forEach((row, index) => {
    events.push(label('thread_name', index + 1, { name: row }));
  });
  for (const operation of operations) {
    const {
      operation: cat,
      sequence,
      bytes,
      startedNs,
      doneNs,
      postedNs,
      waitedFromNs,
      waitDoneNs,
    } = operation;
    const tid = rows.indexOf(nameQueue(operation)) + 1;
    const time = { ts: convertTime(startedNs), dur: Math.max(0, doneNs - startedNs) / microsecond };
    const [posted, waitedFrom, waitDone] = [postedNs, waitedFromNs, waitDoneNs].map(convertTime);
    const args = { sequence, bytes, posted, waitedFrom, waitDone };
    events.push({ name: `${cat} ${sequence}`, ph: 'X', cat, pid: rank, tid, ...time, args });
  }
  return events;
}

function nameQueue({ group, operation, peer }: RecordedOperation): string {
  if (operation === 'send') return `${group}: send to ${peer}`;
  if (operation === 'receive') return `${group}: receive from ${peer}`;
  return `${group}: collectives`;
}
