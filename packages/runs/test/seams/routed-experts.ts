import { biasDropoutResidual, gatherRows, Parameter, reshape, type Tape, type Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { matmul, Tensor } from '@mtl/kernels';
import {
  type FeedForwardSpecification,
  feedForwards,
  type MicroBatchContext,
  type Sublayer,
  type SublayerInput,
  type SublayerOptions,
} from '@mtl/models';

export const numExperts = 4;

export const routedExperts: FeedForwardSpecification = {
  kind: 'routed-experts',
  ffnHiddenSize: 0,
  bias: false,
};

/**
 * The processes over which experts are sharded; a sublayer reads this. Undefined: this process has all
 * experts.
 */
let processes: ProcessGroup | undefined;

/** Sets the processes for experts of models that are built later. */
export function spreadExpertsOver(group: ProcessGroup | undefined): void {
  processes = group;
}

/**
 * Returns the expert of a row, from its position in the sample, so that experts get different numbers of
 * rows.
 */
const chooseExpert = (position: number, sample: number): number =>
  ((position * position + 3 * sample) % 7) % numExperts;

/** The number of rows [N, 1, H] that a process sends to, and receives from, each process. */
interface Exchange {
  readonly group: ProcessGroup;
  readonly inputSplits: readonly number[];
  readonly outputSplits: readonly number[];
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

function exchanged(input: Tensor, { group, inputSplits, outputSplits }: Exchange): Tensor {
  const [, ...row] = input.shape;
  const { dtype, device } = input;
  const output = Tensor.empty({ shape: [sum(outputSplits), ...row], dtype, device });
  group.allToAll({ output, input, inputSplits, outputSplits }).wait();
  return output;
}

/** Sends rows to the processes of their experts; backward sends the gradients back. */
function exchange(tape: Tape, input: Variable, how: Exchange | undefined): Variable {
  if (how === undefined) return input;
  const output = tape.result(exchanged(input.tensor, how), { requiresGradient: input.requiresGradient });
  tape.record(output, () => ({
    name: 'exchange',
    inputs: [input],
    parameters: [],
    saved: [],
    backward: ({ outputGradient }) => [exchanged(outputGradient!, reversed(how)!)],
  }));
  return output;
}

const reversed = (how: Exchange | undefined): Exchange | undefined =>
  how && { ...how, inputSplits: how.outputSplits, outputSplits: how.inputSplits };

/** Consecutive rows of one expert. */
interface Run {
  readonly start: number;
  readonly length: number;
  /** Index among the experts of this process. */
  readonly expert: number;
}

/** Multiplies every run of rows by the transposed matrix of its expert. The weight is [experts, H, H]. */
function expertLinear(tape: Tape, input: Variable, weight: Parameter, runs: readonly Run[]): Variable {
  const [, outputs, inputs] = weight.shape as [number, number, number];
  const { dtype, device } = input.tensor;
  const viewRows = (tensor: Tensor, { start, length }: Run) =>
    tensor.view({ offset: start * inputs, shape: [length, inputs] });
  const viewMatrix = (tensor: Tensor, { expert }: Run) =>
    tensor.view({ offset: expert * outputs * inputs, shape: [outputs, inputs] });
  const forRuns = (body: (run: Run) => void): void => {
    for (const run of runs) if (run.length > 0) body(run);
  };
  const made = Tensor.zeros({ shape: input.tensor.shape, dtype, device });
  forRuns((run) => {
    using output = viewRows(made, run);
    using left = viewRows(input.tensor, run);
    using right = viewMatrix(weight.data, run);
    matmul({ output, left, right, transposeRight: true });
  });
  const result = tape.result(made, { requiresGradient: true });
  tape.record(result, () => {
    const saved = tape.save(input);
    return {
      name: 'expertLinear',
      inputs: [input],
      parameters: [weight],
      saved: [saved],
      backward: ({ parts, outputGradient }) => {
        if (parts.weight) {
          forRuns((run) => {
            using output = viewMatrix(weight.mainGradient, run);
            using left = viewRows(outputGradient!, run);
            using right = viewRows(saved.tensor, run);
            matmul({ output, left, right, transposeLeft: true, accumulate: true });
          });
        }
        if (!parts.input) return [];
        const gradient = Tensor.zeros({ shape: saved.tensor.shape, dtype, device });
        forRuns((run) => {
          using output = viewRows(gradient, run);
          using left = viewRows(outputGradient!, run);
          using right = viewMatrix(weight.data, run);
          matmul({ output, left, right });
        });
        return [gradient];
      },
    };
  });
  return result;
}

/**
 * A sublayer that routes rows like experts, for tests: every row goes to one of several matrices. The
 * matrices are sharded over processes (ep), and their gradients are summed over the processes with the same
 * matrices (edp).
 */
class RoutedExperts implements Sublayer {
  readonly parameters: readonly Parameter[];
  readonly reads = ['positions', 'samples'] as const;
  readonly #group = processes;
  readonly #weight: Parameter;
  readonly #numHere: number;

  constructor({ name, hiddenSize, initialization }: SublayerOptions<FeedForwardSpecification>) {
    const { rank, size } = this.#group ?? { rank: 0, size: 1 };
    this.#numHere = numExperts / size;
    const all = { start: 0, end: hiddenSize };
    this.#weight = new Parameter({
      name: `${name}.experts.weight`,
      globalShape: [numExperts, hiddenSize, hiddenSize],
      slices: [{ start: rank * this.#numHere, end: (rank + 1) * this.#numHere }, all, all],
      placement: { view: 'expert', sharded: { ep: 0 } },
      initialization: { kind: 'normal', standardDeviation: initialization.standardDeviation },
    });
    this.parameters = [this.#weight];
  }

  forward(tape: Tape, { input, residual, dropout }: SublayerInput, { rows }: MicroBatchContext): Variable {
    const { shape } = input.tensor;
    const positions = rows.of('positions').tensor.toArray();
    const samples = rows.of('samples').tensor.toArray();
    const experts = positions.map((position, row) => chooseExpert(position, samples[row]!));
    const order = [...experts.keys()].sort((one, other) => experts[one]! - experts[other]!);
    const counts = Array.from(
      { length: numExperts },
      (_, of) => experts.filter((each) => each === of).length,
    );
    const { how, runs } = this.#plan(counts);
    const sorted = gatherRows(tape, { input, indices: indices(tape, order) });
    const here = exchange(tape, sorted, how);
    const computed = expertLinear(tape, here, this.#weight, runs);
    const back = exchange(tape, computed, reversed(how));
    const places = order.map((_, row) => order.indexOf(row));
    const unsorted = gatherRows(tape, { input: back, indices: indices(tape, places) });
    const output = reshape(tape, { input: unsorted, shape });
    return biasDropoutResidual(tape, { input: output, residual, dropout });
  }

  /** Returns the number of rows from each process to each process, and the runs of the received rows. */
  #plan(counts: readonly number[]): { readonly how: Exchange | undefined; readonly runs: readonly Run[] } {
    const { rank, size } = this.#group ?? { rank: 0, size: 1 };
    const ofRank = (all: readonly number[], at: number): readonly number[] =>
      all.slice(at * this.#numHere, (at + 1) * this.#numHere);
    const everywhere = this.#countsOfAll(counts);
    let start = 0;
    const runs = everywhere.flatMap((all) =>
      ofRank(all, rank).map((length, expert): Run => {
        start += length;
        return { start: start - length, length, expert };
      }),
    );
    const group = this.#group;
    const inputSplits = Array.from({ length: size }, (_, to) => sum(ofRank(counts, to)));
    const outputSplits = everywhere.map((all) => sum(ofRank(all, rank)));
    return { how: group && { group, inputSplits, outputSplits }, runs };
  }

  #countsOfAll(counts: readonly number[]): readonly (readonly number[])[] {
    const group = this.#group;
    if (group === undefined) return [counts];
    using input = Tensor.from([...counts], { shape: [numExperts], dtype: 'int32' });
    using output = Tensor.empty({ shape: [group.size, numExperts], dtype: 'int32' });
    group.allGather({ output, input }).wait();
    const all = output.toArray();
    return group.ranks.map((_, rank) => all.slice(rank * numExperts, (rank + 1) * numExperts));
  }
}

const indices = (tape: Tape, values: readonly number[]): Variable =>
  tape.input(Tensor.from([...values], { shape: [values.length], dtype: 'int32' }));

feedForwards.register(
  routedExperts.kind,
  (options: SublayerOptions<FeedForwardSpecification>) => new RoutedExperts(options),
);
