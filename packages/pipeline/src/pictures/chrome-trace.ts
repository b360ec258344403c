import type { SimulatedRank, Simulation } from '../simulator/simulate-schedule.js';
import { actionLabels } from './action-labels.js';

/** An event of the Trace Event Format, which chrome://tracing and ui.perfetto.dev read. */
export interface TraceEvent {
  readonly name: string;
  /**
   * X: a pass that starts at `ts` and lasts `dur`. M: the name of a row. C: a counter's value from `ts` on.
   */
  readonly ph: 'X' | 'M' | 'C';
  readonly cat?: string;
  readonly pid: number;
  readonly tid: number;
  /** The start of the event, in microseconds. */
  readonly ts?: number;
  readonly dur?: number;
  readonly args: Readonly<Record<string, unknown>>;
}

export interface ChromeTrace {
  readonly traceEvents: readonly TraceEvent[];
  readonly displayTimeUnit: 'ms';
  readonly otherData: Readonly<Record<string, unknown>>;
}

/** Microseconds per unit of simulated time. The trace shows a unit as a millisecond. */
const microseconds = 1000;

/**
 * Formats a simulated step as a Chrome trace. The content of the trace file is `JSON.stringify` of the
 * result. Each rank is a thread with an event for each pass, whose category is the kind of pass, and with a
 * counter of live activations.
 */
export function chromeTrace(simulation: Simulation): ChromeTrace {
  const { schedule, ranks, optimizerTime, bubbleFraction, stepTime } = simulation;
  const label = actionLabels(schedule);
  const traceEvents = ranks.flatMap((rank, tid): TraceEvent[] => {
    const events: TraceEvent[] = [
      { name: 'thread_name', ph: 'M', pid: 0, tid, args: { name: `rank ${tid}` } },
      { name: 'thread_sort_index', ph: 'M', pid: 0, tid, args: { sort_index: tid } },
    ];
    for (const { action, start, end } of rank.passes) {
      const { kind: cat, chunk, microBatch } = action;
      const time = { ts: start * microseconds, dur: (end - start) * microseconds };
      events.push({ name: label(action), ph: 'X', cat, pid: 0, tid, ...time, args: { chunk, microBatch } });
    }
    if (optimizerTime > 0) {
      const time = { ts: rank.optimizerStart * microseconds, dur: optimizerTime * microseconds };
      events.push({ name: 'optimizer', ph: 'X', cat: 'optimizer', pid: 0, tid, ...time, args: {} });
    }
    return [...events, ...activationCounter(rank, tid)];
  });
  const name = { name: 'process_name', ph: 'M', pid: 0, tid: 0, args: { name: schedule.name } } as const;
  return {
    traceEvents: [name, ...traceEvents],
    displayTimeUnit: 'ms',
    otherData: { schedule: schedule.name, bubbleFraction, stepTime },
  };
}

/**
 * Returns the events for a counter of live activations. The count increases when a forward pass starts, and
 * decreases when the last pass that needs the activations ends.
 */
function activationCounter({ passes }: SimulatedRank, tid: number): TraceEvent[] {
  let [untilInput, untilWeight] = [0, 0];
  return passes.map(({ action, start, end }): TraceEvent => {
    if (action.kind === 'F') untilInput++;
    else if (action.kind === 'W') untilWeight--;
    else untilInput--;
    if (action.kind === 'I') untilWeight++;
    const ts = (action.kind === 'F' ? start : end) * microseconds;
    return {
      name: `activations of rank ${tid}`,
      ph: 'C',
      pid: 0,
      tid,
      ts,
      args: { untilInput, untilWeight },
    };
  });
}
