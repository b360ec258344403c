import type { Parameter, Tape, Variable } from '@mtl/autograd';
import type { DeviceTaskBatch } from './task-batch-to-device.js';

/** What a head computes with, apart from its parameters. */
export interface TaskHeadCall {
  readonly batch: DeviceTaskBatch;
  /** Hidden states [n, 1, H] at flat indices [n] into [S, R], after the last layer norm. */
  rows(indices: Variable): Variable;
  /** Hidden dropout of [1, R, H]. */
  dropped(input: Variable): Variable;
}

/** What turns hidden states into the logits of a fine-tuning task. */
export interface TaskHead {
  readonly parameters: readonly Parameter[];
  /** Logits whose elements fold to [N, V], for the N labels of the batch. */
  logits(tape: Tape, call: TaskHeadCall): Variable;
}
