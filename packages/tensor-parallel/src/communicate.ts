import type { Collective, PendingTensor, Tape, Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';
import { regionCollectives } from './region-collectives.js';

interface CommunicateOptions {
  /** The name of the operation, in errors. */
  readonly name: string;
  readonly input: Variable;
  readonly forward: Collective;
  /** Starts the collective that turns the output's gradient into the input's gradient. */
  readonly backward: Collective;
}

/** The result of a collective in progress. */
export interface PendingVariable {
  /** Waits for the result. Call it once. */
  finish(tape: Tape): Variable;
}

/**
 * Starts a collective as a differentiable operation. In backward, a second collective communicates the
 * gradients. Computations before `finish` overlap with the first collective. The backward of these
 * computations overlaps with the second collective, which starts when backward reaches `finish` and ends when
 * backward reaches the start of the first collective.
 */
function startCommunication(tape: Tape, options: CommunicateOptions): PendingVariable {
  const { name, input, forward, backward } = options;
  const { requiresGradient } = input;
  const { shape } = input.tensor;
  const pending = forward(input.tensor);
  let pendingGradient: PendingTensor | undefined;
  // a placeholder that connects the start and the end of the collective on the tape
  const link = tape.result(input.tensor.view({ shape }), { requiresGradient });
  tape.record(link, () => ({
    name: `start of ${name}`,
    inputs: [input],
    parameters: [],
    saved: [],
    backward: () => [pendingGradient!.wait()],
  }));
  return {
    finish: (inner) => {
      const output = inner.result(pending.wait(), { requiresGradient });
      link.release();
      inner.record(output, () => ({
        name,
        inputs: [link],
        parameters: [],
        saved: [],
        backward: ({ outputGradient }) => {
          pendingGradient = backward(outputGradient!);
          return [outputGradient!.view({ shape: outputGradient!.shape })];
        },
      }));
      return output;
    },
  };
}

/** Runs a collective as a differentiable operation. */
export const communicate = (tape: Tape, options: CommunicateOptions): Variable =>
  startCommunication(tape, options).finish(tape);

/** Returns an existing variable as a pending result, for cases without a collective. */
export const finished = (variable: Variable): PendingVariable => ({ finish: () => variable });

/** Gathers the rows of all processes, in rank order. The backward pass sums the gradients of the copies. */
export function gatherRowsOfAll(tape: Tape, input: Variable, group: ProcessGroup): PendingVariable {
  const { enter, leave } = regionCollectives({ group, sequenceParallel: true });
  return startCommunication(tape, { name: 'gatherRowsOfAll', input, forward: enter!, backward: leave! });
}

/**
 * Sums rows over processes and returns this process's rows of the sum. The backward pass gathers the
 * gradients of all rows.
 */
export function sumRowsOfAll(tape: Tape, input: Variable, group: ProcessGroup): PendingVariable {
  const { enter, leave } = regionCollectives({ group, sequenceParallel: true });
  return startCommunication(tape, { name: 'sumRowsOfAll', input, forward: leave!, backward: enter! });
}

/** How many rows are sent to and received from each process of a group. */
export interface RowExchange {
  readonly group: ProcessGroup;
  readonly inputSplits: readonly number[];
  readonly outputSplits: readonly number[];
}

/** Returns the reverse exchange, which sends rows back to the processes from which they came. */
export const reversed = ({ group, inputSplits, outputSplits }: RowExchange): RowExchange => ({
  group,
  inputSplits: outputSplits,
  outputSplits: inputSplits,
});

/**
 * Sends rows to the other processes of the group, [N, ...] to [N', ...]. The backward pass sends the
 * gradients back.
 */
export const exchangeRows = (tape: Tape, input: Variable, exchange: RowExchange): PendingVariable =>
  startCommunication(tape, {
    name: 'exchangeRows',
    input,
    forward: (tensor) => exchanged(tensor, exchange),
    backward: (gradient) => exchanged(gradient, reversed(exchange)),
  });

function exchanged(input: Tensor, { group, inputSplits, outputSplits }: RowExchange) {
  const numRows = outputSplits.reduce((sum, count) => sum + count, 0);
  const { dtype, device, shape } = input;
  const output = Tensor.empty({ shape: [numRows, ...shape.slice(1)], dtype, device });
  const work = group.allToAll({ output, input, inputSplits, outputSplits });
  return {
    wait: () => {
      work.wait();
      return output;
    },
  };
}

/**
 * Returns this process's share of rows that are the same on all processes, [N, ...] to [N / t, ...]. The
 * backward pass gathers the gradients.
 */
export function shareOfRows(tape: Tape, input: Variable, group: ProcessGroup): Variable {
  const { enter } = regionCollectives({ group, sequenceParallel: true });
  return communicate(tape, {
    name: 'shareOfRows',
    input,
    forward: (tensor) => ownRows(tensor, group),
    backward: enter!,
  });
}

/** Joins the shares of all processes, [N / t, ...] to [N, ...], with the same result on all processes. */
export function joinShares(tape: Tape, input: Variable, group: ProcessGroup): Variable {
  const { enter } = regionCollectives({ group, sequenceParallel: true });
  return communicate(tape, {
    name: 'joinShares',
    input,
    forward: enter!,
    backward: (gradient) => ownRows(gradient, group),
  });
}

function ownRows(tensor: Tensor, { rank, size }: ProcessGroup) {
  const numRows = tensor.dim(0) / size;
  const own = tensor.rows(rank * numRows, (rank + 1) * numRows);
  return { wait: () => own };
}
