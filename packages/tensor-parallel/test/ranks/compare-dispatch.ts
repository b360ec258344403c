import {
  allocateParameters,
  expertActivation,
  groupedLinear,
  initializeParameter,
  Parameter,
  Tape,
} from '@mtl/autograd';
import { createMeshGroups, type World } from '@mtl/comm';
import { setNumThreads, Tensor } from '@mtl/kernels';
import { setPoison } from '@mtl/kernels/internal';
import { ProcessMesh } from '@mtl/layout';
import { dispatchTokens, type ExpertParallel, type TokenDispatcher } from '../../src/index.js';

export interface DispatchLayout {
  readonly ep: number;
  readonly etp: number;
  readonly dispatcher: TokenDispatcher;
  /** The experts that rows choose: mixed, one expert for all rows, or only the experts of one process. */
  readonly choice: 'mixed' | 'one expert' | 'first half';
}

/** The results of a rank for its rows and experts. */
export interface DispatchedResult {
  readonly output: readonly number[];
  readonly inputGradient: readonly number[];
  readonly probabilitiesGradient: readonly number[];
  readonly weightGradients: ReadonlyArray<readonly number[]>;
  readonly load: readonly number[];
}

const [numExperts, topK, hidden, width] = [4, 2, 6, 8] as const;
/** The number of rows of all ranks together. */
export const numRows = 12;

const value = (index: number): number => Math.sin(1 + index * 0.7);

/** Returns the experts of a row; the third row drops one, the sixth row both. */
function chooseExperts(row: number, choice: DispatchLayout['choice']): readonly [number, number] {
  if (row === 5) return [-1, -1];
  const first = choice === 'one expert' ? 3 : choice === 'first half' ? row % 2 : (row * row + row) % 4;
  const second = choice === 'first half' ? 1 - first : (first + 1 + (row % 3)) % 4;
  return [first, row === 2 ? -1 : second];
}

/** Makes the weights of two layers: this process's experts, and its shard of their features. */
function makeWeights(expertParallel: ExpertParallel | undefined): readonly [Parameter, Parameter] {
  const { rank: place, size: numPlaces } = expertParallel?.spread ?? { rank: 0, size: 1 };
  const { rank: share, size: numShares } = expertParallel?.sharing ?? { rank: 0, size: 1 };
  const part = (size: number, index: number, of: number) => ({
    start: (index * size) / of,
    end: ((index + 1) * size) / of,
  });
  const initialization = { kind: 'normal', standardDeviation: 0.5 } as const;
  const experts = part(numExperts, place, numPlaces);
  const features = part(width, share, numShares);
  const whole = { start: 0, end: hidden };
  const up = new Parameter({
    name: 'up',
    globalShape: [numExperts, width, hidden],
    slices: [experts, features, whole],
    placement: { view: 'expert', sharded: { ep: 0, etp: 1 } },
    initialization,
  });
  const down = new Parameter({
    name: 'down',
    globalShape: [numExperts, hidden, width],
    slices: [experts, whole, features],
    placement: { view: 'expert', sharded: { ep: 0, etp: 2 } },
    initialization,
  });
  return [up, down];
}

/**
 * Runs two layers of experts over rows [first, last) of all rows, and backward with a fixed output gradient.
 */
function compute(
  { first, last, choice }: { readonly first: number; readonly last: number } & Pick<DispatchLayout, 'choice'>,
  expertParallel: ExpertParallel | undefined,
): DispatchedResult {
  const [up, down] = makeWeights(expertParallel);
  const weights = [up, down];
  const storage = allocateParameters(weights, { device: 'cpu', dtype: 'float32', mainGradients: true });
  for (const weight of weights) initializeParameter(weight, weight.data, 3);
  const rows = Array.from({ length: last - first }, (_, row) => first + row);
  using tape = new Tape();
  const input = tape.input(
    Tensor.from(
      rows.flatMap((row) => Array.from({ length: hidden }, (_, h) => value(row * hidden + h))),
      {
        shape: [rows.length, 1, hidden],
        dtype: 'float32',
      },
    ),
    { requiresGradient: true },
  );
  const probabilities = tape.input(
    Tensor.from(
      rows.flatMap((row) => [value(row) ** 2, value(-row) ** 2]),
      {
        shape: [rows.length, topK],
        dtype: 'float32',
      },
    ),
    { requiresGradient: true },
  );
  let load: readonly number[] = [];
  const output = tape.scope(() => {
    const sent = dispatchTokens(tape, {
      input,
      experts: tape.input(
        Tensor.from(
          rows.flatMap((row) => chooseExperts(row, choice)),
          { shape: [rows.length, topK], dtype: 'int32' },
        ),
      ),
      probabilities,
      numExperts,
      expertParallel,
    });
    load = sent.load.tensor.toArray();
    const tokens = sent.arrive(tape);
    const { offsets } = tokens;
    const hiddenRows = groupedLinear(tape, { input: tokens.rows, weight: up, offsets });
    const activated = expertActivation(tape, {
      input: hiddenRows,
      probabilities: tokens.probabilities,
      offsets,
      activation: 'geluTanh',
    });
    return tokens
      .combine(tape, groupedLinear(tape, { input: activated, weight: down, offsets }))
      .finish(tape);
  });
  using gradient = Tensor.from(
    rows.flatMap((row) => Array.from({ length: hidden }, (_, h) => value(3 + row * hidden + h))),
    { shape: output.tensor.shape, dtype: 'float32' },
  );
  const values = output.tensor.toArray();
  tape.backward(output, gradient);
  output.release();
  const taken = [input, probabilities].map((variable) => {
    using tensor = tape.takeGradient(variable)!;
    variable.release();
    return tensor.toArray();
  });
  const weightGradients = weights.map(({ mainGradient }) => mainGradient.toArray());
  storage.dispose();
  return {
    output: values,
    inputGradient: taken[0]!,
    probabilitiesGradient: taken[1]!,
    weightGradients,
    load,
  };
}

/** Computes all rows in one process, as the expected result. */
export const computeAlone = (choice: DispatchLayout['choice']): DispatchedResult =>
  compute({ first: 0, last: numRows, choice }, undefined);

/** Computes the rows of this rank, with experts placed as in each of the layouts. */
export default function compareDispatch(
  world: World,
  layouts: readonly DispatchLayout[],
): readonly DispatchedResult[] {
  setNumThreads(1);
  // poisons new memory, so that an unwritten result is not right by chance from earlier contents
  setPoison(true);
  const each = numRows / world.size;
  return layouts.map(({ ep, etp, dispatcher, choice }) => {
    const mesh = new ProcessMesh({ dp: world.size, ep, etp });
    const { close, ...groups } = createMeshGroups(world, mesh, {
      ...(ep > 1 && { ep: ['ep'] }),
      ...(etp > 1 && { etp: ['etp'] }),
      all: ['etp', 'ep'],
    });
    const { ep: spread, etp: sharing, all } = groups as Record<string, ExpertParallel['all']>;
    const rows = { first: world.rank * each, last: (world.rank + 1) * each, choice };
    const result = compute(rows, { spread, sharing, all, dispatcher });
    close();
    return result;
  });
}
