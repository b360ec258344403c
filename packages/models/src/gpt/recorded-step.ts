import { type DeviceGraph, GraphMemory, Tensor } from '@mtl/kernels';

/** The sizes of a recorded step. */
interface StepSizes {
  readonly numSequences: number;
  /** The number of layers that have keys and values in the cache. */
  readonly numCaches: number;
  readonly vocabularySize: number;
}

/** The tensors through which a recorded step gets its inputs and returns its result. */
export interface StepTensors {
  /** int32 [sequences, 1] */
  readonly tokens: Tensor;
  /** int32 [sequences, 1]: positions in the texts. */
  readonly positionIds: Tensor;
  /** int32 [layers, sequences]: the number of rows that the cache of the layer and sequence has already. */
  readonly rows: Tensor;
  /** float32 [sequences, vocabularySize] */
  readonly logits: Tensor;
}

/** The inputs of a step, in the order of `StepTensors`. */
interface StepInputs {
  readonly tokens: Int32Array;
  readonly positionIds: Int32Array;
  readonly rows: Int32Array;
}

/**
 * The computation of one new token for each of several sequences, recorded once as a graph and launched for
 * each further token. Operations and results are the same as without a graph. A launch leaves out the checks,
 * views and calls of TypeScript between some hundred operations.
 */
export class RecordedStep {
  readonly #tensors: StepTensors;
  readonly #graph: DeviceGraph;
  /** Everything above and the memory of the graph, in the order of creation. */
  readonly #made: readonly Disposable[];

  /**
   * @param record computes the step from the tensors, into `logits`; it is recorded, not executed
   * @throws KernelError MTL_CAPTURE if the step reads or waits for values, which a graph cannot;
   *   MTL_OUT_OF_MEMORY
   */
  constructor(sizes: StepSizes, record: (tensors: StepTensors) => void) {
    const { numSequences, numCaches, vocabularySize } = sizes;
    const made: Disposable[] = [];
    const keep = <Kept extends Disposable>(one: Kept): Kept => {
      made.push(one);
      return one;
    };
    const integers = (shape: readonly number[]): Tensor => keep(Tensor.empty({ shape, dtype: 'int32' }));
    try {
      this.#tensors = {
        tokens: integers([numSequences, 1]),
        positionIds: integers([numSequences, 1]),
        rows: integers([numCaches, numSequences]),
        logits: keep(Tensor.empty({ shape: [numSequences, vocabularySize], dtype: 'float32' })),
      };
      const memory = keep(new GraphMemory('cpu'));
      this.#graph = keep(memory.capture(() => record(this.#tensors)));
    } catch (error) {
      disposeAll(made);
      throw error;
    }
    this.#made = made;
  }

  /** Computes a token of each sequence; returns float32 [sequences, vocabularySize]. */
  run({ tokens, positionIds, rows }: StepInputs): Float32Array {
    this.#tensors.tokens.write(tokens);
    this.#tensors.positionIds.write(positionIds);
    this.#tensors.rows.write(rows);
    this.#graph.launch();
    return this.#tensors.logits.read<'float32'>();
  }

  dispose(): void {
    disposeAll(this.#made);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** Disposes of objects, the last one first. */
function disposeAll(made: readonly Disposable[]): void {
  for (const one of made.toReversed()) one[Symbol.dispose]();
}
