import { UsageError } from '@mtl/errors';
import { type GeluKind, Tensor } from '@mtl/kernels';

/**
 * A way to recompute a tensor from tensors that are kept anyway, so that the tensor itself need not be kept.
 */
export interface Recipe {
  /** Variables that `compute` reads. */
  readonly dependencies: readonly Variable[];
  compute(): Tensor;
}

/**
 * Marks a variable as the output of an activation. Its consumer may return the gradient of the activation's
 * input instead of the variable's own gradient.
 */
export interface Activation {
  /** The activation's input. */
  readonly input: Variable;
  /** GELU, or squared ReLU. */
  readonly kind: GeluKind | 'squaredRelu';
}

/**
 * Marks a variable as a part of another variable, which is called the whole. The part's tensor is a view of
 * the whole's tensor, and the part's gradient is a view of the whole's gradient. To keep or recompute the
 * part, the tape keeps or recomputes the whole.
 */
export interface Part {
  /** Keeps the whole variable for backward. For every call, `release` must be called once. */
  hold(options: { rematerialize: boolean }): void;
  release(): void;
  /** Returns the part's tensor as a view of the whole's tensor. The caller owns the view. */
  view(): Tensor;
  /**
   * Returns the part's gradient as a view of the whole's gradient. The first call allocates the whole's
   * gradient. The caller owns the view.
   */
  newGradient(): Tensor;
}

/**
 * A tensor on a tape. Its creator owns it until `release`. Operations that need it in backward hold it until
 * they have run. The memory is freed once the variable is released and no operation holds it.
 */
export class Variable {
  readonly tensor: Tensor;
  /**
   * True if the variable has a gradient, because it depends on a parameter or on a differentiable input of
   * the tape.
   */
  readonly requiresGradient: boolean;
  /** Defined for results that are cheap to recompute in backward (see `SavedTensor`). */
  readonly recipe: Recipe | undefined;
  /** Defined for outputs of GELU and squared ReLU. */
  readonly activation: Activation | undefined;
  /** Present on parts of another variable. */
  readonly part: Part | undefined;
  #owned = true;
  #numHolders = 0;

  constructor(
    tensor: Tensor,
    options: {
      requiresGradient: boolean;
      recipe?: Recipe | undefined;
      activation?: Activation | undefined;
      part?: Part | undefined;
    },
  ) {
    const { requiresGradient, recipe, activation, part } = options;
    this.tensor = tensor;
    this.requiresGradient = requiresGradient;
    this.recipe = recipe;
    this.activation = activation;
    this.part = part;
  }

  /**
   * Returns an uninitialized tensor for the gradient of this variable. Operations write it in backward and
   * return it. For a part, the tensor is a view of the whole's gradient.
   */
  newGradient(): Tensor {
    if (this.part !== undefined) return this.part.newGradient();
    const { shape, dtype, device } = this.tensor;
    return Tensor.empty({ shape, dtype, device });
  }

  /** Releases the variable, because its owner does not need it any more. A second call does nothing. */
  release(): void {
    this.#owned = false;
    this.#freeUnlessNeeded();
  }

  hold(): this {
    if (this.tensor.isDisposed) {
      throw new UsageError('MTL_DISPOSED_TENSOR', 'a variable was used after everybody had let go of it');
    }
    this.#numHolders += 1;
    return this;
  }

  letGo(): void {
    this.#numHolders -= 1;
    this.#freeUnlessNeeded();
  }

  #freeUnlessNeeded(): void {
    if (!this.#owned && this.#numHolders === 0) this.tensor.dispose();
  }
}

/**
 * A tensor that an operation needs in backward. Usually this object keeps the variable itself. If
 * rematerialization is on and the variable has a recipe, the object instead keeps the tensors from which the
 * variable is recomputed. For a part of a variable, the object keeps the whole variable.
 */
export class SavedTensor {
  readonly #variable: Variable | undefined;
  readonly #recipe: Recipe | undefined;
  readonly #part: Part | undefined;
  /** The recomputed tensor, or the view of a part. */
  #made: Tensor | undefined;

  constructor(variable: Variable, { rematerialize }: { rematerialize: boolean }) {
    if (variable.part !== undefined) {
      this.#part = variable.part;
      this.#part.hold({ rematerialize });
    } else if (rematerialize && variable.recipe !== undefined) {
      this.#recipe = variable.recipe;
      for (const dependency of this.#recipe.dependencies) dependency.hold();
    } else {
      this.#variable = variable.hold();
    }
  }

  get tensor(): Tensor {
    if (this.#variable !== undefined) return this.#variable.tensor;
    this.#made ??= this.#part === undefined ? this.#recipe!.compute() : this.#part.view();
    return this.#made;
  }

  release(): void {
    this.#variable?.letGo();
    this.#made?.dispose();
    this.#made = undefined;
    this.#part?.release();
    for (const dependency of this.#recipe?.dependencies ?? []) dependency.letGo();
  }
}
