import { UsageError } from '@mtl/errors';
import type { Tensor } from '@mtl/kernels';

/** How to compute a tensor again from others that are kept anyway, instead of keeping it. */
export interface Recipe {
  /** Variables that `compute` reads. */
  readonly dependencies: readonly Variable[];
  compute(): Tensor;
}

/**
 * A tensor on a tape. It is held by counting: the code that made it holds it once (until `release`), every operation
 * that needs it in backward holds it until it has run; the memory is freed with the last holder.
 */
export class Variable {
  readonly tensor: Tensor;
  /** Whether a gradient flows to it: it depends on a parameter or on a differentiable input of the tape. */
  readonly requiresGradient: boolean;
  /** Present on cheap results: backward may recompute them (see SavedTensor). */
  readonly recipe: Recipe | undefined;
  #holders = 1;

  constructor(tensor: Tensor, { requiresGradient, recipe }: { requiresGradient: boolean; recipe?: Recipe | undefined }) {
    this.tensor = tensor;
    this.requiresGradient = requiresGradient;
    this.recipe = recipe;
  }

  hold(): this {
    if (this.#holders === 0) throw new UsageError('MTL_DISPOSED_TENSOR', 'a variable was used after its last holder let go');
    this.#holders += 1;
    return this;
  }

  release(): void {
    if (this.#holders === 0) return;
    this.#holders -= 1;
    if (this.#holders === 0) this.tensor.dispose();
  }
}

/**
 * What an operation keeps for backward: the variable itself or, where rematerialization is on and the variable has a
 * recipe, the ingredients to compute it again.
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
    this.#variable?.release();
    this.#recomputed?.dispose();
    this.#recomputed = undefined;
    for (const dependency of this.#recipe?.dependencies ?? []) dependency.release();
  }
}
