import { UsageError } from '@mtl/errors';
import type { GeluKind, Tensor } from '@mtl/kernels';

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
  #owned = true;
  #numHolders = 0;

  constructor(
    tensor: Tensor,
    options: {
      requiresGradient: boolean;
      recipe?: Recipe | undefined;
      activation?: Activation | undefined;
    },
  ) {
    const { requiresGradient, recipe, activation } = options;
    this.tensor = tensor;
    this.requiresGradient = requiresGradient;
    this.recipe = recipe;
    this.activation = activation;
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
 * the variable has a recipe, the ingredients to compute it again.
 */
export class SavedTensor {
  readonly #variable: Variable | undefined;
  readonly #recipe: Recipe | undefined;
  #recomputed: Tensor | undefined;

  constructor(variable: Variable, { rematerialize }: { rematerialize: boolean }) {
    if (rematerialize && variable.recipe !== undefined) {
      this.#recipe = variable.recipe;
      for (const dependency of this.#recipe.dependencies) dependency.hold();
    } else {
      this.#variable = variable.hold();
    }
  }

  get tensor(): Tensor {
    if (this.#variable !== undefined) return this.#variable.tensor;
    this.#recomputed ??= this.#recipe!.compute();
    return this.#recomputed;
  }

  release(): void {
    this.#variable?.letGo();
    this.#recomputed?.dispose();
    this.#recomputed = undefined;
    for (const dependency of this.#recipe?.dependencies ?? []) dependency.letGo();
  }
}
