import type { Collective, Tape, Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';
import { regionCollectives } from './region-collectives.js';

export interface CommunicateOptions {
  /** Of the operation, in errors. */
  readonly name: string;
  readonly input: Variable;
  readonly forward: Collective;
  /** From the gradient of the output to that of the input. */
  readonly backward: Collective;
}

/** A collective as a differentiable operation: another one carries gradients back. */
export function communicate(tape: Tape, { name, input, forward, backward }: CommunicateOptions): Variable {
  const output = tape.result(forward(input.tensor).wait(), { requiresGradient: input.requiresGradient });
  tape.record(output, () => ({
    name,
    inputs: [input],
    parameters: [],
    saved: [],
    backward: ({ outputGradient }) => [backward(outputGradient!).wait()],
  }));
  return output;
}

/** The rows of all processes, one process after the other; gradients of the copies are summed. */
export function gatherRowsOfAll(tape: Tape, input: Variable, group: ProcessGroup): Variable {
  const { enter, leave } = regionCollectives({ group, sequenceParallel: true });
  return communicate(tape, { name: 'gatherRowsOfAll', input, forward: enter!, backward: leave! });
}

/** This process's rows of the sum over processes; its gradient is that of all of its parts. */
export function sumRowsOfAll(tape: Tape, input: Variable, group: ProcessGroup): Variable {
  const { enter, leave } = regionCollectives({ group, sequenceParallel: true });
  return communicate(tape, { name: 'sumRowsOfAll', input, forward: leave!, backward: enter! });
}

/** How many rows go to each process of a group and come from each. */
export interface RowExchange {
  readonly group: ProcessGroup;
  readonly inputSplits: readonly number[];
  readonly outputSplits: readonly number[];
}

/** The exchange that takes rows back to where they came from. */
export const reversed = ({ group, inputSplits, outputSplits }: RowExchange): RowExchange => ({
  group,
  inputSplits: outputSplits,
  outputSplits: inputSplits,
});

/** Sends rows to other processes, [N, ...] to [N', ...]; gradients go back. */
export const exchangeRows = (tape: Tape, input: Variable, exchange: RowExchange): Variable =>
  communicate(tape, {
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

/** This process's share of rows that all processes have, [N, ...] to [N / t, ...]; gradients are gathered. */
export function shareOfRows(tape: Tape, input: Variable, group: ProcessGroup): Variable {
  const { enter } = regionCollectives({ group, sequenceParallel: true });
  return communicate(tape, {
    name: 'shareOfRows',
    input,
    forward: (tensor) => ownRows(tensor, group),
    backward: enter!,
  });
}

/** The rows of all processes where each has its share, [N / t, ...] to [N, ...], the same on all of them. */
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
