import type { Parameter } from '@mtl/autograd';
import { meshAxes } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { sumOfSquares, Tensor } from '@mtl/kernels';
import { GradientNorm } from './gradient-norm.js';
import { GradientReducer } from './gradient-reducer.js';
import type { Optimizer } from './optimizer.js';
import { copiesAlong, type ParallelGroups } from './parallel-groups.js';
import type { ParameterBuffers } from './parameter-buffers.js';
import { ParameterGatherer } from './parameter-gatherer.js';
import { PartialGradients } from './partial-gradients.js';
import { type OptimizerStateTensor, RuleOfParameters } from './rule-of-parameters.js';
import { type ParameterUpdate, type RunOfParameters, runsByRule } from './runs-by-rule.js';

export interface ModelOptimizerOptions {
  /** The update rule, or that of each parameter, such as `muonWith` gives. */
  readonly optimizer: Optimizer | ((parameter: Parameter) => Optimizer);
  /** The parameters that the decoupled learning rate of a step is for. Default: none. */
  readonly isDecoupled?: ((parameter: Parameter) => boolean) | undefined;
  readonly weightDecay: number;
  /** Largest gradient norm; larger gradients are scaled down to it. 0: no clipping. */
  readonly clipGradient: number;
  /** Default: this process alone. */
  readonly groups?: ParallelGroups | undefined;
  /**
   * The parameters of each model chunk (virtual pipeline stage) by its number. Every chunk has a backward of
   * its own; a parameter may be in several chunks. Default: all in chunk 0.
   */
  readonly chunks?: ReadonlyMap<number, readonly Parameter[]> | undefined;
  /**
   * Reduce the gradients of a bucket as soon as they are ready (see `expectLastBackward`). Default: all
   * before the step.
   */
  readonly overlapGradientReduction?: boolean;
  /**
   * With a distributed optimizer: wait for gathered parameters only when they are used. Default: within the
   * step.
   */
  readonly overlapParameterGather?: boolean;
  /**
   * The first gradients of a step are written to weights' main gradients instead of added to zeros: less
   * memory is read. Not where passes are recorded and launched again, since a recorded one would write every
   * time. Default false.
   */
  readonly writesFirstGradients?: boolean;
}

export interface OptimizerStepOptions {
  readonly learningRate: number;
  /** Of parameters with `ModelOptimizerOptions.isDecoupled`. Default: `learningRate`. */
  readonly decoupledLearningRate?: number | undefined;
  /** What the loss was multiplied with (fp16); gradients are divided by it. Default 1. */
  readonly lossScale?: number;
}

export interface OptimizerStepResult {
  /**
   * Norm of the gradients of all parameters, unscaled, before clipping. Infinite or NaN when they overflowed.
   */
  readonly gradientNorm: number;
  /** Whether the parameters were left as they are because a gradient was not finite. */
  readonly skipped: boolean;
}

export interface LaunchStepOptions extends OptimizerStepOptions {
  /** [1] float64: receives the norm that `finishStep` asks for. */
  readonly gradientNorm: Tensor;
}

/**
 * An optimizer over the flat buffers of a model: norm, clipping, update, rounding to the model's dtype and
 * clearing of the gradients. Over several processes a step first reduces the gradients, and with a
 * distributed optimizer updates this rank's slice of every bucket and gathers the others'. Every rank of the
 * mesh must call `step`.
 */
export class ModelOptimizer {
  readonly buffers: ParameterBuffers;
  readonly #options: ModelOptimizerOptions;
  /** Decoupled weight decay of the next step. */
  weightDecay: number;
  readonly #rules: readonly RuleOfParameters[];
  /** By owned range, in their order. */
  readonly #runs: readonly (readonly RunOfParameters[])[];
  readonly #gradientNorm: Tensor;
  readonly #norm: GradientNorm;
  readonly #reducer: GradientReducer | undefined;
  readonly #partials: readonly PartialGradients[];
  readonly #gatherer: ParameterGatherer | undefined;
  #numSteps = 0;
  #isReduced = false;
  /** The square of the norm of the reduced gradients, where it has been computed. */
  #squares: Tensor | undefined;
  /** Where the squares of this rank's own gradients are wanted. */
  #ownSquares: Tensor | undefined;
  #isLaunched = false;
  /** Steps that were taken for updates before they are finished. */
  #numAssumed = 0;

  constructor(buffers: ParameterBuffers, options: ModelOptimizerOptions) {
    const { groups = {} } = options;
    checkGroups(groups, buffers);
    this.buffers = buffers;
    this.#options = options;
    this.weightDecay = options.weightDecay;
    const { rules, runs } = runsByRule(buffers, updateOf(options));
    this.#runs = runs;
    this.#rules = rules.map((rule) => new RuleOfParameters(rule, { buffers, groups }));
    const { device } = buffers.model;
    this.#gradientNorm = Tensor.zeros({ shape: [1], dtype: 'float64', device });
    this.#norm = new GradientNorm(buffers, groups);
    const { dp } = groups;
    const isShared = dp !== undefined && dp.size > 1;
    this.#reducer = isShared
      ? new GradientReducer(buffers, {
          group: dp,
          chunks: options.chunks,
          onBucket: (gradients) => this.#addOwnSquares(gradients),
        })
      : undefined;
    this.#gatherer = isShared && buffers.sharing.distributed ? new ParameterGatherer(buffers, dp) : undefined;
    this.#partials = partialsOf(buffers, groups);
    this.#markGradientsClear();
  }

  /** Updates that have been made: the exponent of the bias corrections. */
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
    return this.#rules.flatMap(({ states }) => states);
  }

  /**
   * Announces that the next backward is the last one of a model chunk before `step`: reductions can overlap
   * with it.
   */
  expectLastBackward(chunk = 0): void {
    if (this.#options.overlapGradientReduction === true) this.#reducer?.arm(chunk);
  }

  /**
   * Makes the model of the master values, after a checkpoint or weights were loaded into them. With a
   * distributed optimizer the ranks' slices are gathered: all of them must call it.
   */
  refreshModel(): void {
    this.buffers.roundOwned();
    if (this.#gatherer === undefined) return;
    for (const bucket of this.buffers.buckets) this.#gatherer.start(bucket);
    this.#gatherer.finish();
  }

  /**
   * Makes the main gradients of this rank's slices those of the global batch: over data-parallel ranks, and
   * over axes along which they are only parts. `step` does it where it has not been done. Every rank must
   * call it.
   */
  reduceGradients(): void {
    if (this.#isReduced) return;
    // a parameter that no forward has read since the last step has not been waited for yet
    this.#gatherer?.finish();
    if (this.#reducer === undefined) this.#addOwnSquares(this.buffers.gradients);
    this.#reducer?.finish();
    this.#ownSquares = undefined;
    for (const partials of this.#partials) partials.sum();
    this.#isReduced = true;
  }

  /**
   * Asks for the sum of squares of this rank's own gradients, those of the passes that follow, before they
   * are reduced: by it a rank knows whether it has computed the same again. No communication.
   *
   * @param squares [1] float64: complete after `reduceGradients`
   */
  recordOwnGradients(squares: Tensor): void {
    squares.zero();
    this.#ownSquares = squares;
  }

  /**
   * The square of the norm of all gradients times the square of the loss scale, [1] float64 and left on the
   * device: what a caller that may refuse an update decides by. Gradients are reduced before. `launchStep`
   * does it where it has not been done. Every rank must call it.
   *
   * @returns a tensor of the optimizer, which keeps its value until the next step
   */
  measureGradients(): Tensor {
    this.reduceGradients();
    this.#squares ??= this.#norm.computeSquare();
    return this.#squares;
  }

  /** Clears the main gradients without an update: a step that is left out. Every rank must call it. */
  discardGradients(): void {
    this.reduceGradients();
    this.#forgetGradients();
    this.buffers.gradients.zero();
    this.#markGradientsClear();
  }

  /**
   * Uses up the main gradients: updates the parameters, or skips when a gradient is not finite; clears them
   * anyway.
   */
  step(options: OptimizerStepOptions): OptimizerStepResult {
    this.launchStep({ ...options, gradientNorm: this.#gradientNorm });
    return this.finishStep(this.#gradientNorm.item());
  }

  /**
   * `step` without waiting for the device, which detects clipping and overflow on its own. The caller
   * reads the norm, together with other results of the step, and passes it to `finishStep`.
   *
   * @throws UsageError `MTL_OPTIMIZER_STEP` when the step before has not been finished, nor taken for an
   *   update (`assumeUpdate`)
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
    for (const { optimizer, isDecoupled } of this.#rules) {
      optimizer.beginStep({
        step: this.#numSteps + 1,
        learningRate: isDecoupled ? decoupledLearningRate : learningRate,
        weightDecay: this.weightDecay,
        lossScale,
        maximumNorm: this.#options.clipGradient,
        squares,
        gradientNorm,
      });
    }
    this.#update();
    this.#markGradientsClear();
    this.#isLaunched = true;
  }

  /**
   * Counts the launched step as an update before its norm is known, so that another one can be launched. If
   * its gradients turn out not to be finite, the step launched after it had the bias corrections of one
   * update too many: for callers that end then.
   */
  assumeUpdate(): void {
    if (!this.#isLaunched) return;
    this.#isLaunched = false;
    this.#numAssumed += 1;
    this.#numSteps += 1;
  }

  /** Takes note of how the launched step went, by its gradient norm; of several, the first of them. */
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

  /** Frees what it has; gathers that are under way end before, so that the buffers can be freed next. */
  dispose(): void {
    this.#gatherer?.abandon();
    for (const part of [...this.#rules, this.#norm, ...this.#partials, this.#gradientNorm]) part.dispose();
  }

  #addOwnSquares(input: Tensor): void {
    if (this.#ownSquares !== undefined) sumOfSquares({ output: this.#ownSquares, input, accumulate: true });
  }

  #markGradientsClear(): void {
    if (this.#options.writesFirstGradients !== true) return;
    for (const { parameter } of this.buffers.ranges) parameter.markGradientClear();
  }

  #forgetGradients(): void {
    this.#isReduced = false;
    this.#squares = undefined;
  }

  #update(): void {
    const { gradients, buckets } = this.buffers;
    const { overlapParameterGather = false } = this.#options;
    const gatherer = this.#gatherer;
    // from the parameters that forward reads first: their gather has the longest time
    for (let index = this.#runs.length - 1; index >= 0; index--) {
      for (const { rule, index: inRule } of this.#runs[index]!) {
        this.#rules[rule]!.optimizer.update(inRule, { clearGradient: gatherer === undefined });
      }
      gatherer?.start(buckets[index]!);
    }
    if (gatherer === undefined) return;
    for (const { matrices } of this.#rules) matrices.finishGather();
    // the other ranks' slices hold what was summed into their results
    gradients.zero();
    if (!overlapParameterGather) gatherer.finish();
  }
}

/** The update of each parameter: one value for all that are updated in the same way. */
function updateOf({
  optimizer,
  isDecoupled = () => false,
}: ModelOptimizerOptions): (parameter: Parameter) => ParameterUpdate {
  const optimizerOf = typeof optimizer === 'function' ? optimizer : (): Optimizer => optimizer;
  const updates: ParameterUpdate[] = [];
  return (parameter) => {
    const update = { optimizer: optimizerOf(parameter), isDecoupled: isDecoupled(parameter) };
    const known = updates.find(
      (each) => each.optimizer === update.optimizer && each.isDecoupled === update.isDecoupled,
    );
    if (known === undefined) updates.push(update);
    return known ?? update;
  };
}

/**
 * For each axis along which some parameter's gradient is only a part: what sums the parts. Data parallelism
 * is implied.
 */
function partialsOf(buffers: ParameterBuffers, groups: ParallelGroups): PartialGradients[] {
  return meshAxes.flatMap((axis) => {
    const group = copiesAlong(groups, axis);
    if (group === undefined || group.size === 1) return [];
    const ranges = buffers.ranges.filter(({ parameter }) => parameter.partialOver.includes(axis));
    return ranges.length === 0 ? [] : [new PartialGradients(buffers, { ranges, group })];
  });
}

function checkGroups(groups: ParallelGroups, { sharing }: ParameterBuffers): void {
  const { dp, world } = groups;
  const [rank, size] = [dp?.rank ?? 0, dp?.size ?? 1];
  if (rank !== sharing.rank || size !== sharing.size) {
    throw new UsageError(
      'MTL_GROUP',
      `buffers shared as rank ${sharing.rank} of ${sharing.size}, a data-parallel group of rank ${rank} of ${size}`,
      { expected: 'buffers and optimizer of the same data-parallel group' },
    );
  }
  if (world !== undefined || meshAxes.every((axis) => (groups[axis]?.size ?? 1) === 1)) return;
  throw new UsageError('MTL_GROUP', 'groups along axes of the mesh, but none of all its processes', {
    expected: 'groups.world: gradient norms are summed over it',
  });
}
