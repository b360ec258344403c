import { UsageError } from '@mtl/errors';
import { type GeluKind, Tensor } from '@mtl/kernels';

/** A way to compute a tensor again from others that are kept anyway, instead of keeping it. */
export interface Recipe {
  /** Variables that `compute` reads. */
  readonly dependencies: readonly Variable[];
  compute(): Tensor;
}

/**
 * Marks a variable as an activation of another: its consumer may return the gradient of the activation's
 * input instead of its own.
 */
export interface Activation {
  /** The activation's input. */
  readonly input: Variable;
  /** GELU, or squared ReLU. */
  readonly kind: GeluKind | 'squaredRelu';
}

/**
 * Marks a variable as a part of another, the whole: its tensor is a view, its memory and its recomputation
 * are the whole's, and its gradient is a view of the whole's gradient.
 */
export interface Part {
  /** Keeps the whole for backward; each call needs a `release`. */
  hold(options: { rematerialize: boolean }): void;
  release(): void;
  /** Returns this part of the whole that is kept; the caller owns the view. */
  view(): Tensor;
  /**
   * Returns this part of the whole's gradient, which the first part to ask makes; the caller owns the view.
   */
  newGradient(): Tensor;
}

/**
 * A tensor on a tape. Its maker owns it until `release`; operations that need it in backward hold it until
 * they have run. The memory is freed when the owner has released it and the last holder has let go.
 */
export class Variable {
  readonly tensor: Tensor;
  /**
   * True where a gradient flows to it: it depends on a parameter or on a differentiable input of the tape.
   */
  readonly requiresGradient: boolean;
  /** Present on cheap results: backward may recompute them (see SavedTensor). */
  readonly recipe: Recipe | undefined;
  /** Present on outputs of GELU and squared ReLU. */
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
   * Returns a tensor for the gradient of this variable, with undefined contents: for operations whose
   * backward returns it. The gradient of a part is in the memory of the whole's gradient.
   */
  newGradient(): Tensor {
    if (this.part !== undefined) return this.part.newGradient();
    const { shape, dtype, device } = this.tensor;
    return Tensor.empty({ shape, dtype, device });
  }

  /** Releases the variable, which its owner needs no longer; a second call does nothing. */
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
 * A tensor that an operation keeps for backward: the variable itself or, where rematerialization is on and
 * the variable has a recipe, the ingredients to compute it again. Of a part, the whole is kept.
 */
export class SavedTensor {
  readonly #variable: Variable | undefined;
  readonly #recipe: Recipe | undefined;
  readonly #part: Part | undefined;
  /** The result of the recipe, or the view of the part. */
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
