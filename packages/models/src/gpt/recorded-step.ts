import { type DeviceGraph, GraphMemory, Tensor } from '@mtl/kernels';

/** The sizes of a recorded step. */
interface StepSizes {
  readonly numSequences: number;
  /** How many layers have keys and values in the cache. */
  readonly numCaches: number;
  readonly vocabularySize: number;
}

/** The tensors through which a recorded step receives its inputs and returns its result. */
export interface StepTensors {
  /** int32 [sequences, 1] */
  readonly tokens: Tensor;
  /** int32 [sequences, 1]: positions in the texts. */
  readonly positionIds: Tensor;
  /** int32 [layers, sequences]: how many rows each layer's cache already has for each sequence. */
  readonly rows: Tensor;
  /** float32 [sequences, vocabularySize] */
  readonly logits: Tensor;
}

/** A step's inputs, in the order of `StepTensors`. */
interface StepInputs {
  readonly tokens: Int32Array;
  readonly positionIds: Int32Array;
  readonly rows: Int32Array;
}

/**
 * Computes one new token for each of several sequences. The computation is recorded once as a graph, which is
 * launched for each further token. Operations and results are the same as without a graph. A launch skips the
 * checks, views and TypeScript calls between several hundred operations.
 */
export class RecordedStep {
  readonly #tensors: StepTensors;
  readonly #graph: DeviceGraph;
  /** The tensors, the graph and the graph's memory, in the order of creation. */
  readonly #made: readonly Disposable[];

  /**
   * @param record computes the step from `tensors`, and writes the result to `logits`; it is recorded, not
   *   executed
   * @throws KernelError MTL_CAPTURE if the step reads or waits for values, which a graph cannot do;
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

  /** Computes one token for each sequence. Returns the logits, float32 [sequences, vocabularySize]. */
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
