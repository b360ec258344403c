import { type DeviceGraph, GraphMemory, Tensor } from '@mtl/kernels';

/** The sizes of a recorded step. */
interface StepSizes {
  readonly numSequences: number;
  readonly numLayers: number;
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
  readonly #memory: GraphMemory;
  readonly #tensors: StepTensors;
  readonly #graph: DeviceGraph;

  /**
   * @param record computes the step from the tensors, into `logits`; it is recorded, not executed
   * @throws KernelError MTL_CAPTURE if the step reads or waits for values, which a graph cannot
   */
  constructor(sizes: StepSizes, record: (tensors: StepTensors) => void) {
    const { numSequences, numLayers, vocabularySize } = sizes;
    const integers = (shape: readonly number[]): Tensor => Tensor.empty({ shape, dtype: 'int32' });
    this.#tensors = {
      tokens: integers([numSequences, 1]),
      positionIds: integers([numSequences, 1]),
      rows: integers([numLayers, numSequences]),
      logits: Tensor.empty({ shape: [numSequences, vocabularySize], dtype: 'float32' }),
    };
    this.#memory = new GraphMemory('cpu');
    try {
      this.#graph = this.#memory.capture(() => record(this.#tensors));
    } catch (error) {
      this.#disposeOfMemory();
      throw error;
    }
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
    this.#graph.dispose();
    this.#disposeOfMemory();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #disposeOfMemory(): void {
    const { tokens, positionIds, rows, logits } = this.#tensors;
    for (const tensor of [tokens, positionIds, rows, logits]) tensor.dispose();
    this.#memory.dispose();
  }
}
