import { DataError } from '@mtl/errors';
import type { TraceEvent } from '../pictures/chrome-trace.js';
import type { Simulation } from '../simulator/simulate-schedule.js';
import { measureStep } from './measure-step.js';
import { traceFormat } from './merge-traces.js';
import type { RecordedSpan } from './pipeline-recorder.js';

/** One pipeline of a trace. */
export interface TracedPipeline {
  /** The first of its ranks. */
  readonly pipeline: number;
  /** Its training steps, in their order; times in milliseconds. */
  readonly steps: readonly Simulation[];
}

interface TracedRank {
  readonly rank: number;
  readonly pipeline: number;
  readonly stage: number;
}

/** Nanoseconds in the unit of the Trace Event Format. */
const microsecond = 1000;

/**
 * The training steps in a trace that `mergeTraces` made.
 *
 * `name`: what errors and pictures call it
 *
 * @param text the file
 * @throws DataError `MTL_TRACE` when it is no such trace, or its passes are not those of whole steps
 */
export function readTrace(text: string, { name }: { readonly name: string }): readonly TracedPipeline[] {
  const { events, ranks } = parse(text, name);
  const spansOf = new Map(ranks.map(({ rank }) => [rank, [] as RecordedSpan[]]));
  for (const { ph, cat, pid, tid, ts, dur, args } of events) {
    if (ph !== 'X' || tid !== 0) continue;
    const startNs = ts! * microsecond;
    const { chunk, microBatch } = args as Pick<RecordedSpan, 'chunk' | 'microBatch'>;
    const kind = cat as RecordedSpan['kind'];
    spansOf.get(pid)?.push({ kind, chunk, microBatch, startNs, endNs: startNs + dur! * microsecond });
  }
  return [...new Set(ranks.map(({ pipeline }) => pipeline))].map((pipeline) => {
    const members = ranks.filter((rank) => rank.pipeline === pipeline).sort((a, b) => a.stage - b.stage);
    const steps = members.map(({ rank }) => stepsOf(spansOf.get(rank)!));
    const numSteps = Math.min(...steps.map(({ length }) => length));
    if (numSteps === 0) throw problem(name, `pipeline ${pipeline} has no training step`);
    const measured = Array.from({ length: numSteps }, (_, step) =>
      measureStep(
        steps.map((rank) => rank[step]!),
        { name },
      ),
    );
    return { pipeline, steps: measured };
  });
}

/** The spans within each training step of a rank. */
function stepsOf(spans: readonly RecordedSpan[]): RecordedSpan[][] {
  const steps = spans.filter(({ kind }) => kind === 'step').sort((a, b) => a.startNs - b.startNs);
  // half a microsecond for what writing times as microseconds rounds
  const slack = microsecond / 2;
  return steps.map(({ startNs, endNs }) =>
    spans.filter((span) => span.startNs >= startNs - slack && span.endNs <= endNs + slack),
  );
}

function parse(
  text: string,
  name: string,
): { readonly events: readonly TraceEvent[]; readonly ranks: readonly TracedRank[] } {
  let trace: { traceEvents?: unknown; otherData?: { format?: unknown; ranks?: unknown } } | null;
  try {
    trace = JSON.parse(text);
  } catch (cause) {
    throw problem(name, 'it is no JSON', cause);
  }
  const { traceEvents: events, otherData } = trace ?? {};
  if (otherData?.format !== traceFormat || !Array.isArray(events) || !Array.isArray(otherData.ranks)) {
    throw problem(name, 'it is no trace of a training');
  }
  return { events, ranks: otherData.ranks };
}

function problem(name: string, what: string, cause?: unknown): DataError {
  return new DataError('MTL_TRACE', `${name}: ${what}`, {
    expected: 'a file that a training wrote with --profile-steps',
    cause,
  });
}
