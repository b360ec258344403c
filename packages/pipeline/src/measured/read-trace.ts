import { DataError } from '@mtl/errors';
import type { Simulation } from '../simulator/simulate-schedule.js';
import { measureStep } from './measured-step.js';
import { traceFormat } from './merge-traces.js';
import type { RecordedSpan } from './pipeline-recorder.js';

/** A pipeline in a trace. */
export interface TracedPipeline {
  /** Identifies the pipeline by the global rank of its first rank. */
  readonly pipeline: number;
  /** The pipeline's training steps, in order. Times are in milliseconds. */
  readonly steps: readonly Simulation[];
}

interface TracedRank {
  readonly rank: number;
  readonly pipeline: number;
  readonly stage: number;
}

/** Nanoseconds per microsecond, the unit of the Trace Event Format. */
const microsecond = 1000;

/**
 * Reads the training steps from the content of a trace file that `mergeTraces` has made.
 *
 * `name`: the name of the trace in errors and pictures
 *
 * @param text the content of the file
 * @throws DataError `MTL_TRACE` if the content is not such a trace, or contains incomplete steps
 */
export function readTrace(text: string, { name }: { readonly name: string }): readonly TracedPipeline[] {
  const { events, ranks } = parse(text, name);
  const spansByRank = new Map(ranks.map(({ rank }) => [rank, [] as RecordedSpan[]]));
  for (const [index, event] of events.entries()) {
    const { ph, tid, pid } = readFields(event);
    if (ph !== 'X' || tid !== 0) continue;
    const span = readSpan(readFields(event));
    if (span === undefined) throw problem(name, `its event ${index} is malformed`);
    spansByRank.get(pid as number)?.push(span);
  }
  return [...new Set(ranks.map(({ pipeline }) => pipeline))].map((pipeline) => {
    const members = ranks.filter((rank) => rank.pipeline === pipeline).sort((a, b) => a.stage - b.stage);
    const steps = members.map(({ rank }) => splitSteps(spansByRank.get(rank)!));
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

/**
 * Returns the activity that is described by an event in the first row of a process; undefined if the event is
 * not valid.
 */
function readSpan({ cat, ts, dur, args }: Fields): RecordedSpan | undefined {
  const { chunk, microBatch } = readFields(args);
  const isTime = (time: unknown): time is number => Number.isFinite(time) && (time as number) >= 0;
  const isNumber = (number: unknown): number is number | undefined =>
    number === undefined || (Number.isSafeInteger(number) && (number as number) >= 0);
  const isWhole = typeof cat === 'string' && isTime(ts) && isTime(dur);
  if (!isWhole || !isNumber(chunk) || !isNumber(microBatch)) return undefined;
  // the kind is not checked here, because measureStep ignores kinds that are not passes
  const kind = cat as RecordedSpan['kind'];
  const startNs = ts * microsecond;
  return { kind, chunk, microBatch, startNs, endNs: startNs + dur * microsecond };
}

type Fields = Readonly<Record<string, unknown>>;

/** Returns the fields of `value`, or no fields if it is not an object. */
function readFields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function isRank(value: unknown): value is TracedRank {
  const { rank, pipeline, stage } = readFields(value);
  return [rank, pipeline, stage].every((number) => Number.isSafeInteger(number) && (number as number) >= 0);
}

/** Returns a list for each of a rank's training steps, with the spans within the step. */
function splitSteps(spans: readonly RecordedSpan[]): RecordedSpan[][] {
  const steps = spans.filter(({ kind }) => kind === 'step').sort((a, b) => a.startNs - b.startNs);
  // half a microsecond, which is the rounding error of times in microseconds
  const slack = microsecond / 2;
  return steps.map(({ startNs, endNs }) =>
    spans.filter((span) => span.startNs >= startNs - slack && span.endNs <= endNs + slack),
  );
}

function parse(
  text: string,
  name: string,
): { readonly events: readonly unknown[]; readonly ranks: readonly TracedRank[] } {
  let trace: { traceEvents?: unknown; otherData?: { format?: unknown; ranks?: unknown } | null } | null;
  try {
    trace = JSON.parse(text);
  } catch (cause) {
    throw problem(name, 'it is no JSON', cause);
  }
  const { traceEvents: events, otherData } = trace ?? {};
  if (otherData?.format !== traceFormat || !Array.isArray(events) || !Array.isArray(otherData.ranks)) {
    throw problem(name, 'it is no trace of a training run');
  }
  const wrong = otherData.ranks.findIndex((rank) => !isRank(rank));
  if (wrong >= 0) throw problem(name, `its rank ${wrong} is malformed`);
  const ranks = otherData.ranks as TracedRank[];
  if (ranks.length === 0) throw problem(name, 'it has no ranks');
  if (new Set(ranks.map(({ rank }) => rank)).size < ranks.length) throw problem(name, 'it has a rank twice');
  return { events, ranks };
}

function problem(name: string, what: string, cause?: unknown): DataError {
  return new DataError('MTL_TRACE', `${name}: ${what}`, {
    expected: 'a file that a training run wrote with --profile-steps',
    cause,
  });
}
