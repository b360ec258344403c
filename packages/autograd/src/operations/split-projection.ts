import { cast, checkedOperation, splitProjection as splitTensor, Tensor } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import { type Part, SavedTensor, type Variable } from '../variable.js';

/** The queries, keys and values of this process's heads, in G groups with R query heads each. */
export interface Heads<Value> {
  /** [S, B, G, R, D] or [T, G, R, D] */
  readonly query: Value;
  /** [S, B, G, D] or [T, G, D] */
  readonly key: Value;
  /** [S, B, G, E] or [T, G, E] */
  readonly value: Value;
}

export interface SplitProjectionOptions {
  /** [S, B, G * (R + 2) * D] or [T, ...]: the R queries, the key and the value of each group. */
  readonly qkv: Variable;
  /** G */
  readonly numGroups: number;
  /** D */
  readonly headSize: number;
}

type Name = keyof Heads<unknown>;
const names: readonly Name[] = ['query', 'key', 'value'];

/**
 * A packed projection whose queries, keys and values are separate variables. Their gradients are views of one
 * gradient tensor.
 */
class Projection {
  readonly #qkv: Variable;
  readonly #shape: readonly number[];
  #saved: SavedTensor | undefined;
  #numHolders = 0;
  #gradient: Tensor | undefined;
  readonly #gradients: Partial<Record<Name, Tensor>> = {};

  constructor({ qkv, numGroups, headSize }: SplitProjectionOptions) {
    this.#qkv = qkv;
    const width = qkv.tensor.dim(-1);
    this.#shape = [...qkv.tensor.shape.slice(0, -1), numGroups, width / (numGroups * headSize), headSize];
  }

  /** Returns views of queries, keys and values in the projection or its gradient. */
  split(tensor: Tensor): Heads<Tensor> {
    using projection = tensor.reshape(this.#shape);
    return splitTensor(projection);
  }

  part(name: Name): Part {
    return {
      hold: (options) => {
        this.#saved ??= new SavedTensor(this.#qkv, options);
        this.#numHolders += 1;
      },
      release: () => {
        this.#numHolders -= 1;
        if (this.#numHolders > 0) return;
        this.#saved!.release();
        this.#saved = undefined;
      },
      view: () => this.#only(name, this.#saved!.tensor),
      newGradient: () => {
        this.#gradient ??= this.#qkv.newGradient();
        const gradient = this.#only(name, this.#gradient);
        this.#gradients[name] = gradient;
        return gradient;
      },
    };
  }

  /**
   * Returns the gradient of the projection, given the gradients of queries, keys and values. These three
   * gradients either are already views of the projection's gradient, or are copied into it.
   */
  takeGradient(gradients: readonly (Tensor | undefined)[]): Tensor {
    const whole = this.#gradient ?? this.#qkv.newGradient();
    this.#gradient = undefined;
    for (const [index, name] of names.entries()) {
      const gradient = gradients[index];
      if (gradient !== undefined && gradient === this.#gradients[name]) continue;
      using place = this.#only(name, whole);
      const { shape, dtype, device } = place;
      using zeros = gradient === undefined ? Tensor.zeros({ shape, dtype, device }) : undefined;
      cast({ output: place, input: gradient ?? zeros! });
    }
    return whole;
  }

  /** Frees the gradient if backward failed before the gradient was taken. */
  release(): void {
    this.#gradient?.dispose();
    this.#gradient = undefined;
  }

  #only(name: Name, tensor: Tensor): Tensor {
    const heads = this.split(tensor);
    for (const other of names) if (other !== name) heads[other].dispose();
    return heads[name];
  }
}

/**
 * Returns the queries, keys and values of a packed projection as variables that share its memory. Their
 * gradients share the memory of the projection's gradient. Nothing is copied if each of the three has a
 * single consumer.
 *
 * @throws UsageError `MTL_SHAPE` for a projection with incomplete groups
 */
export const splitProjection = checkedOperation(
  'splitProjection',
  (tape: Tape, options: SplitProjectionOptions): Heads<Variable> => {
    const { qkv } = options;
    const { requiresGradient } = qkv;
    const projection = new Projection(options);
    const heads = projection.split(qkv.tensor);
    const variables = names.map((name) =>
      tape.result(heads[name], { requiresGradient, part: projection.part(name) }),
    );
    tape.record(variables, () => ({
      name: 'splitProjection',
      inputs: [qkv],
      parameters: [],
      saved: [projection],
      backward: ({ outputGradients }) => [projection.takeGradient(outputGradients)],
    }));
    const [query, key, value] = variables as [Variable, Variable, Variable];
    return { query, key, value };
  },
);
