import type { Parameter, ScaledPart } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import { type AdamwScalarsOptions, adamwScalars, type Device, scale, Tensor } from '@mtl/kernels';
import { copyAxes, type MeshView, meshAxes, reductionAxes } from '@mtl/layout';
import type { KeptValues } from './kept-values.js';
import type { Optimizer } from './optimizer.js';
import {
  type OptimizerStateTensor,
  type ParameterUpdate,
  RuleOfParameters,
  type RunOfParameters,
  runsByRule,
} from './parameters-by-rule.js';
import { addSquares, GradientNorm, PartialGradients } from './partial-gradients-and-norm.js';
import { listOwnedParts } from './store/flat-store.js';
import {
  copiesAlong,
  instanceRoles,
  instancesGroup,
  type ParallelGroups,
  reductionGroup,
} from './store/parallel-groups.js';
import type { ParameterStore } from './store/parameter-store.js';
import { sumOverInstances } from './store/sum-over-instances.js';

export interface ModelOptimizerOptions {
  /** The update rule, or a function that returns each parameter's rule, such as the result of `muonWith`. */
  readonly optimizer: Optimizer | ((parameter: Parameter) => Optimizer);
  /**
   * Returns true for parameters whose learning rate is the decoupled learning rate of a step. Default:
   * returns false for all parameters.
   */
  readonly isDecoupled?: ((parameter: Parameter) => boolean) | undefined;
  /** The decoupled weight decay. Default: 0.01, as in PyTorch. */
  readonly weightDecay?: number;
  /**
   * The maximum gradient norm. Gradients with a larger norm are scaled down to it. Default: 0, which means no
   * clipping.
   */
  readonly clipGrad?: number;
  /** The process groups of this rank. Default: only this process takes part. */
  readonly groups?: ParallelGroups | undefined;
  /**
   * True to reduce a bucket's gradients as soon as they are ready (see `expectLastBackward`). Default: false,
   * which means that all gradients are reduced together before the step.
   */
  readonly overlapGradientReduction?: boolean;
  /**
   * True to wait for the values from the other ranks only when they are used. Default: false, which means
   * that the step itself waits for them.
   */
  readonly overlapParameterGather?: boolean;
  /**
   * True to overwrite the weights' main gradients with the first gradients of a step, instead of adding them
   * to zeros. This reads less memory. It must be false for backward passes that are recorded and launched
   * again, because a recorded pass would overwrite the gradients at every launch. Default: false.
   */
  readonly writesFirstGradients?: boolean;
}

export interface OptimizerStepOptions {
  readonly learningRate: number;
  /**
   * The learning rate of the parameters for which `ModelOptimizerOptions.isDecoupled` returns true. Default:
   * `learningRate`.
   */
  readonly decoupledLearningRate?: number | undefined;
  /**
   * The factor by which the loss was multiplied (fp16). The optimizer divides the gradients by it. Default:
   * 1.
   */
  readonly lossScale?: number;
}

interface OptimizerStepResult {
  /**
   * The norm of all parameters' gradients, without the loss scale and before clipping. It is infinite or NaN
   * after an overflow.
   */
  readonly gradientNorm: number;
  /** True if the parameters did not change, because a gradient was not finite. */
  readonly skipped: boolean;
}

interface LaunchStepOptions extends OptimizerStepOptions {
  /** [1] float64: receives the norm for `finishStep`. */
  readonly gradientNorm: Tensor;
}

/** A store, and the rules that update its parameters. */
interface UpdatedStore {
  readonly store: ParameterStore;
  readonly rules: readonly RuleOfParameters[];
  /** For each range that this rank owns, its runs, in order. */
  readonly runs: readonly (readonly RunOfParameters[])[];
  readonly partials: readonly PartialGradients[];
}

/**
 * An optimizer for a model's stores. A step computes the gradient norm, clips, updates, rounds to the model's
 * dtype and clears the gradients. With several processes, a step first reduces the gradients. If the ranks
 * share a store, each rank updates its own part, and the store sends the part to the other ranks. Every rank
 * of the mesh must call `step`.
 */
export class ModelOptimizer {
  readonly stores: readonly ParameterStore[];
  readonly #options: ModelOptimizerOptions;
  /** Decoupled weight decay of the next step. */
  weightDecay: number;
  readonly #updated: readonly UpdatedStore[];
  readonly #gradientNorm: Tensor;
  readonly #norm: GradientNorm;
  #numSteps = 0;
  #isReduced = false;
  /** The square of the reduced gradients' norm, if it has been computed. */
  #squares: Tensor | undefined;
  /** Receives the sum of squares of this rank's own gradients, if this has been requested. */
  #ownSquares: Tensor | undefined;
  #isLaunched = false;
  /** How many launched but unfinished steps already count as updates (see `assumeUpdate`). */
  #numAssumed = 0;

  /** Takes ownership of the stores, which must be on the same device (see `createStores`). */
  constructor(stores: readonly ParameterStore[], options: ModelOptimizerOptions) {
    const { groups = {} } = options;
    checkGroups(groups, stores);
    this.stores = stores;
    this.#options = options;
    this.weightDecay = options.weightDecay ?? 0.01;
    const chooseRule = chooseUpdate(options);
    this.#updated = stores.map((store) => {
      const { rules, runs } = runsByRule(store, chooseRule);
      return {
        store,
        runs,
        rules: rules.map((rule) => new RuleOfParameters(rule, { store, groups })),
        partials: listPartials(store, groups),
      };
    });
    const [{ device }] = stores as [ParameterStore, ...ParameterStore[]];
    this.#gradientNorm = Tensor.zeros({ shape: [1], dtype: 'float64', device });
    this.#norm = new GradientNorm(stores, { groups, device });
    for (const store of stores) store.onOwnGradients((gradients) => this.#addOwnSquares(gradients));
    this.#markGradientsClear();
  }

  /** The number of updates so far, which is the exponent in the bias corrections. */
  get numSteps(): number {
    return this.#numSteps;
  }

  set numSteps(value: number) {
    this.#numSteps = value;
  }

  get groups(): ParallelGroups {
    return this.#options.groups ?? {};
  }

  /** The states of the update rules. */
  get state(): readonly OptimizerStateTensor[] {
    return this.#rules().flatMap(({ states }) => states);
  }

  /**
   * Announces that the next backward pass of a model chunk is the last one before `step`, so that reductions
   * can overlap with it.
   */
  expectLastBackward(chunk = 0): void {
    if (this.#options.overlapGradientReduction !== true) return;
    for (const store of this.stores) store.expectLastBackward(chunk);
  }

  /**
   * Writes the rounded master values to the model. Needed after a checkpoint or weights were loaded into the
   * master values. Every rank must call it.
   */
  refreshModel(): void {
    for (const store of this.stores) store.refresh();
  }

  /**
   * Multiplies slices of trained parameters, between two steps. Multiplies the master values and then writes
   * them to the model (see `refreshModel`). The states of the update rules do not change. Every rank must
   * call it, with the slices of its own shards.
   */
  scaleParts(parts: readonly ScaledPart[]): void {
    // a gather in progress could overwrite the values that are being scaled
    for (const store of this.stores) store.waitForValues();
    for (const { parameter, start, end, factor } of parts) {
      for (const store of this.stores) {
        const range = store.ranges.find((each) => each.parameter === parameter);
        if (range === undefined) continue;
        for (const own of listOwnedParts(store, { start: range.start + start, end: range.start + end })) {
          scaleValues(store.masterValues(own), { size: own.end - own.start, device: store.device, factor });
        }
      }
    }
    this.refreshModel();
  }

  /** Sets this rank's states of the update rules to zero, as before the first step. */
  clearStates(): void {
    for (const { buffer, scales } of this.state) {
      buffer.zero();
      scales?.zero();
    }
  }

  /**
   * Reduces the main gradients of this rank's parameters to the gradients of the global batch: over
   * data-parallel ranks, first within an instance, and over axes along which gradients are partial sums. If
   * the caller has not called this method, `step` does. Every rank must call it.
   */
  reduceGradients(): void {
    if (this.#isReduced) return;
    for (const store of this.stores) {
      store.reduce();
      sumOverInstances(store, this.groups);
    }
    this.#ownSquares = undefined;
    for (const partials of this.#updated.flatMap((each) => each.partials)) partials.sum();
    this.#isReduced = true;
  }

  /**
   * Requests the sum of squares of this rank's own gradients in the backward passes that follow, before
   * reduction. The sum shows if a repeated computation gave the same gradients. It is computed without
   * communication.
   *
   * @param squares [1] float64, which is complete after `reduceGradients`
   */
  recordOwnGradients(squares: Tensor): void {
    squares.zero();
    this.#ownSquares = squares;
  }

  /**
   * Computes the square of the norm of all gradients, including the loss scale, as [1] float64. First reduces
   * the gradients. The result stays on the device, where the caller can use it to reject an update. If the
   * caller has not called this method, `launchStep` does. Every rank must call it.
   *
   * @returns a tensor of the optimizer, which is valid until the next step
   */
  measureGradients(): Tensor {
    this.reduceGradients();
    this.#squares ??= this.#norm.computeSquare();
    return this.#squares;
  }

  /**
   * Clears the main gradients without an update, for a step that is to be skipped. Every rank must call it.
   */
  discardGradients(): void {
    this.reduceGradients();
    this.#forgetGradients();
    for (const store of this.stores) store.clearGradients();
    this.#markGradientsClear();
  }

  /**
   * Updates the parameters from the main gradients, or skips the update if a gradient is not finite. Clears
   * the main gradients in both cases.
   */
  step(options: OptimizerStepOptions): OptimizerStepResult {
    this.launchStep({ ...options, gradientNorm: this.#gradientNorm });
    return this.finishStep(this.#gradientNorm.item());
  }

  /**
   * Launches a step (see `step`) without waiting for the device. The device itself handles clipping and
   * overflow. The caller reads the norm together with other results of the step, and passes the norm to
   * `finishStep`.
   *
   * @throws UsageError `MTL_OPTIMIZER_STEP` when the previous step has neither been finished nor counted as
   *   an update (see `assumeUpdate`)
   */
  launchStep(options: LaunchStepOptions): void {
    const { learningRate, decoupledLearningRate = learningRate, lossScale = 1, gradientNorm } = options;
    if (this.#isLaunched) {
      throw new UsageError('MTL_OPTIMIZER_STEP', 'a step was launched before the last one was finished', {
        remedy: 'give finishStep the gradient norm of the last one',
      });
    }
    const squares = this.measureGradients();
    this.#forgetGradients();
    for (const { optimizer, isDecoupled } of this.#rules()) {
      optimizer.beginStep({
        step: this.#numSteps + 1,
        learningRate: isDecoupled ? decoupledLearningRate : learningRate,
        weightDecay: this.weightDecay,
        lossScale,
        clipGrad: this.#options.clipGrad ?? 0,
        squares,
        gradientNorm,
      });
    }
    if (this.#rules().length === 0) writeNorm({ squares, lossScale, gradientNorm });
    this.#update();
    this.#markGradientsClear();
    this.#isLaunched = true;
  }

  /**
   * Counts the launched step as an update before its norm is known, so that the next step can be launched. If
   * the launched step's gradients turn out not to be finite, this count is wrong, and the next step has used
   * bias corrections for one update too many. Only callers that end the run in this case may call this
   * method.
   */
  assumeUpdate(): void {
    if (!this.#isLaunched) return;
    this.#isLaunched = false;
    this.#numAssumed += 1;
    this.#numSteps += 1;
  }

  /** Finishes the oldest launched step, given its gradient norm. */
  finishStep(gradientNorm: number): OptimizerStepResult {
    const skipped = !Number.isFinite(gradientNorm);
    if (this.#numAssumed > 0) {
      this.#numAssumed -= 1;
      if (skipped) this.#numSteps -= 1;
    } else {
      this.#isLaunched = false;
      if (!skipped) this.#numSteps += 1;
    }
    return { gradientNorm, skipped };
  }

  /** Waits for the stores' pending operations, then frees all memory, including the stores' memory. */
  dispose(): void {
    const partials = this.#updated.flatMap((each) => each.partials);
    const own = [...this.#rules(), this.#norm, ...partials, this.#gradientNorm];
    for (const part of [...own, ...this.stores]) part.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #rules(): readonly RuleOfParameters[] {
    return this.#updated.flatMap(({ rules }) => rules);
  }

  #addOwnSquares(input: Tensor): void {
    if (this.#ownSquares !== undefined) addSquares(this.#ownSquares, input);
  }

  #markGradientsClear(): void {
    if (this.#options.writesFirstGradients !== true) return;
    for (const { ranges } of this.stores) for (const { parameter } of ranges) parameter.markGradientClear();
  }

  #forgetGradients(): void {
    this.#isReduced = false;
    this.#squares = undefined;
  }

  #update(): void {
    for (const { store, rules, runs } of this.#updated) {
      // starts with the parameters that the forward pass reads first, because the other ranks need these
      // values first
      for (let index = runs.length - 1; index >= 0; index--) {
        for (const { matrices } of rules) matrices.take(index);
        for (const { rule, index: inRule } of runs[index]!) {
          rules[rule]!.optimizer.update(inRule, { clearGradient: !store.isDivided });
        }
        store.publish(index);
      }
      for (const { matrices } of rules) matrices.finishGather();
      if (!store.isDivided) continue;
      // the parts of the gradients that belong to different ranks' slices still contain summands of the
      // reduction, so all gradients are cleared
      store.clearGradients();
      if (this.#options.overlapParameterGather !== true) store.waitForValues();
    }
  }
}

/** Multiplies stored values by a factor, regardless of their form in memory. */
function scaleValues(
  values: KeptValues,
  { size, device, factor }: { readonly size: number; readonly device: Device; readonly factor: number },
): void {
  using view = values.view();
  if (view !== undefined) {
    scale({ output: view, input: view, factor });
    return;
  }
  using floats = Tensor.empty({ shape: [size], dtype: 'float32', device });
  values.read(0, floats);
  scale({ output: floats, input: floats, factor });
  values.write(0, floats);
}

/**
 * Writes the norm, which update rules otherwise do. Needed if this rank trains nothing, for example on a
 * stage without adapters.
 */
function writeNorm(options: Pick<AdamwScalarsOptions, 'squares' | 'lossScale' | 'gradientNorm'>): void {
  using scalars = Tensor.empty({ shape: [5], dtype: 'float32', device: options.squares.device });
  const unused = { scalars, learningRate: 0, correction1: 1, correction2: 1, clipGrad: 0 };
  adamwScalars({ ...options, ...unused });
}

/**
 * Returns a function that chooses each parameter's update. Parameters with the same update get the same
 * object.
 */
function chooseUpdate({
  optimizer,
  isDecoupled = () => false,
}: ModelOptimizerOptions): (parameter: Parameter) => ParameterUpdate {
  const chooseOptimizer = typeof optimizer === 'function' ? optimizer : (): Optimizer => optimizer;
  const updates: ParameterUpdate[] = [];
  return (parameter) => {
    const update = { optimizer: chooseOptimizer(parameter), isDecoupled: isDecoupled(parameter) };
    const known = updates.find(
      (each) => each.optimizer === update.optimizer && each.isDecoupled === update.isDecoupled,
    );
    if (known === undefined) updates.push(update);
    return known ?? update;
  };
}

/**
 * Returns the sums of partial gradients: one for each axis along which at least one parameter's gradient is a
 * partial sum. Axes over which the store itself reduces are not included.
 */
function listPartials(store: ParameterStore, groups: ParallelGroups): PartialGradients[] {
  return meshAxes.flatMap((axis) => {
    const group = copiesAlong(groups, axis);
    if (group === undefined || group.size === 1) return [];
    const ranges = store.ranges.filter(({ parameter }) => parameter.partialOver.includes(axis));
    return ranges.length === 0 ? [] : [new PartialGradients(store, { ranges, group })];
  });
}

function checkGroups(groups: ParallelGroups, stores: readonly ParameterStore[]): void {
  if (stores.length === 0) {
    throw new UsageError('MTL_NO_STORAGE', 'an optimizer without a store of parameters', {
      remedy: 'give it what createStores makes of the parameters',
    });
  }
  for (const { group, ranges } of stores) {
    const [first] = ranges;
    if (first === undefined) continue;
    const { name, placement } = first.parameter;
    const [kept, given] = [group, reductionGroup(groups, placement.view)].map(
      (each) => `rank ${each?.rank ?? 0} of ${each?.size ?? 1}`,
    );
    if (kept !== given) {
      throw new UsageError(
        'MTL_GROUP',
        `the store of ${name} sums gradients as ${kept}, the groups of the optimizer say ${given}`,
        { expected: 'the same groups for createStores and the optimizer' },
      );
    }
    checkInstances(groups, placement.view);
  }
  const isAlone =
    [...meshAxes, ...Object.values(instanceRoles)].every((role) => (groups[role]?.size ?? 1) === 1) &&
    stores.every(({ group }) => group === undefined);
  if (groups.world !== undefined || isAlone) return;
  throw new UsageError('MTL_GROUP', 'groups along axes of the mesh, but none of all its processes', {
    expected: 'groups.world: gradient norms are summed over it',
  });
}

/** Rejects a layout in which no group would sum the instances' gradients. */
function checkInstances(groups: ParallelGroups, view: MeshView): void {
  if (groups[copyAxes[view]] === undefined) return;
  const numSumming = reductionAxes[view].reduce((product, axis) => product * (groups[axis]?.size ?? 1), 1);
  const numReached = (reductionGroup(groups, view)?.size ?? 1) * (instancesGroup(groups, view)?.size ?? 1);
  if (numReached >= numSumming) return;
  const role = instanceRoles[view];
  throw new UsageError(
    'MTL_GROUP',
    `gradients of ${numSumming} ranks are summed over ${numReached} of them`,
    {
      expected: `groups.${role} across all instances: stores sum gradients over groups.${view} alone`,
      remedy: `add groups.${role}, or leave groups.${view} out`,
    },
  );
}
