import type { RecordedSpan } from './pipeline-recorder.js';

/** An operation of a process group as it happened: the TraceEntry of @mtl/comm. Times as in RecordedSpan. */
export interface RecordedOperation {
  readonly group: string;
  readonly operation: string;
  /** Position in the group of a message's other end or a broadcast's root, else -1. */
  readonly peer: number;
  readonly sequence: number;
  readonly bytes: number;
  readonly postedNs: number;
  readonly startedNs: number;
  readonly doneNs: number;
  readonly waitedFromNs: number;
  readonly waitDoneNs: number;
}

/** The activities of one rank, by its own clock. */
export interface RankTrace {
  /** The rank among all ranks of the job. */
  readonly rank: number;
  /** The pipeline that the rank belongs to: the first of its ranks. */
  readonly pipeline: number;
  /** Its place in the pipeline. */
  readonly stage: number;
  /** The offset that puts its times on the clock of rank 0. */
  readonly clockOffsetNs: number;
  readonly spans: readonly RecordedSpan[];
  readonly operations: readonly RecordedOperation[];
}
