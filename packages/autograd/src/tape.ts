import { UsageError } from '@mtl/errors';
import { add, Tensor } from '@mtl/kernels';
import type { Parameter } from './parameter.js';
import type { ParameterUnit } from './parameter-unit.js';
import { type Activation, type Part, type Recipe, SavedTensor, Variable } from './variable.js';

/**
 * The parts of the backward pass to compute: the gradients of the inputs, of the parameters, or both.
 * Zero-bubble schedules call these parts B and W.
 */
export interface BackwardHalves {
  readonly input: boolean;
  readonly weight: boolean;
}

export interface BackwardCall {
  readonly parts: BackwardHalves;
  /**
   * The gradient of the output, or of the first of several outputs. Undefined for an unused output, and for a
   * root of backward that needs no output gradient, such as a loss. The tape owns the tensor.
   */
  readonly outputGradient: Tensor | undefined;
  /** The gradients of all outputs in order, for an operation with several outputs. */
  readonly outputGradients: readonly (Tensor | undefined)[];
  /**
   * For each input, the gradient that it has already received. The kernels of some operations add this
   * gradient to their result.
   */
  readonly accumulated: readonly (Tensor | undefined)[];
}

/** A recorded operation. `inputs` only defines the flow of gradients and keeps no memory alive. */
export interface TapeNode {
  readonly name: string;
  readonly inputs: readonly Variable[];
  /** The parameters whose main gradients the weight half of backward adds to. */
  readonly parameters: readonly Parameter[];
  /** True if the operation has a weight half. Default: true if the operation has parameters. */
  readonly hasWeightPart?: boolean;
  /** The tensors that backward needs. They are released when the node is done. */
  readonly saved: readonly { release(): void }[];
  /**
   * True if the gradients from `backward` already include `accumulated`. Otherwise the tape adds
   * `accumulated`.
   */
  readonly addsAccumulated?: boolean;
  /**
   * Returns a new tensor (or view) for each input; undefined for an input without a gradient. Returns an
   * empty list if only the weight half is requested.
   */
  backward(call: BackwardCall): readonly (Tensor | undefined)[];
}

export interface TapeOptions {
  /** If false, as in evaluation and generation, nothing is recorded or kept. Default: true. */
  readonly recording?: boolean;
  /**
   * If true, cheap results (outputs of norms and activations) are recomputed in backward instead of being
   * kept. Default: true.
   */
  readonly rematerialize?: boolean;
}

interface RecordedNode {
  readonly node: TapeNode;
  readonly outputs: readonly Variable[];
}

/**
 * A point in forward at which the use of a unit starts or ends. Backward reaches these points in reverse
 * order.
 */
interface UnitBoundary {
  readonly unit: ParameterUnit;
  readonly begins: boolean;
}

interface PendingWeight {
  readonly node: TapeNode;
  readonly outputGradients: readonly (Tensor | undefined)[];
  /** The unit that was in use when the operation was recorded. */
  readonly unit: ParameterUnit | undefined;
}

/**
 * Records differentiable operations and runs their backward. Backward has two halves, which pipeline
 * schedules need: `backwardInput` computes the gradients of the tape's inputs but no weight gradients, and
 * `backwardWeight` then computes the weight gradients. `backward` runs both halves of each operation
 * together, and frees memory after each operation.
 */
export class Tape {
  readonly recording: boolean;
  readonly rematerialize: boolean;
  #nodes: (RecordedNode | UnitBoundary)[] = [];
  #pending: PendingWeight[] = [];
  readonly #gradients = new Map<Variable, Tensor>();
  readonly #parameterUses = new Map<Parameter, number>();
  readonly #scopes: Variable[][] = [];
  readonly #playedBack = new WeakSet<Variable>();
  readonly #losses = new Set<Variable>();
  /** The unit in use at the current point of forward. */
  #recordedUnit: ParameterUnit | undefined;
  /** The unit in use at the current point of backward. */
  #unit: ParameterUnit | undefined;

  constructor({ recording = true, rematerialize = true }: TapeOptions = {}) {
    this.recording = recording;
    this.rematerialize = rematerialize;
  }

  /** Puts a tensor on the tape. The tape owns it and disposes of it when it is no longer needed. */
  input(tensor: Tensor, { requiresGradient = false }: { requiresGradient?: boolean } = {}): Variable {
    return this.#enter(new Variable(tensor, { requiresGradient: requiresGradient && this.recording }));
  }

  /**
   * Makes the variable for an operation's result. A recipe allows backward to recompute the result. Meant for
   * authors of operations.
   */
  result(
    tensor: Tensor,
    {
      requiresGradient,
      recipe,
      activation,
      part,
    }: { requiresGradient: boolean; recipe?: Recipe; activation?: Activation; part?: Part },
  ): Variable {
    const isRecorded = requiresGradient && this.recording;
    // an unrecorded result (for example, an activation after frozen layers) has no recipe, because its
    // dependencies are not kept
    const remade = isRecorded
      ? { recipe: recipe && withUnit(recipe, this.#recordedUnit), activation, part }
      : {};
    return this.#enter(new Variable(tensor, { requiresGradient: isRecorded, ...remade }));
  }

  /** Keeps a variable for backward. Meant for authors of operations. */
  save(variable: Variable): SavedTensor {
    return new SavedTensor(variable, this);
  }

  /**
   * Adds an operation with one or several outputs. `make` is called only if the tape records and the
   * operation has a gradient.
   */
  record(output: Variable | readonly Variable[], make: () => TapeNode): void {
    const outputs = [output].flat();
    if (!outputs.some(({ requiresGradient }) => requiresGradient)) return;
    const node = make();
    for (const parameter of node.parameters) {
      this.#parameterUses.set(parameter, (this.#parameterUses.get(parameter) ?? 0) + 1);
    }
    this.#nodes.push({ node, outputs });
  }

  /**
   * Makes `loss` an additional root of backward. The loss may be in the middle of a model, such as a router's
   * loss. Its gradient is added at the corresponding point of backward. If the layer is recomputed, the
   * gradient is added during the recomputation.
   */
  addLoss(loss: Variable): void {
    if (this.recording) this.#losses.add(loss);
  }

  /** Runs `body` and releases every variable created in it, except the returned variables. */
  scope<T extends Variable | readonly Variable[]>(body: () => T): T {
    const made: Variable[] = [];
    this.#scopes.push(made);
    let kept: readonly Variable[] = [];
    try {
      const result = body();
      kept = [result].flat() as Variable[];
      return result;
    } finally {
      this.#scopes.pop();
      for (const variable of made) {
        if (kept.includes(variable)) this.#scopes.at(-1)?.push(variable);
        else variable.release();
      }
    }
  }

  /**
   * Runs `body`, which must compute only with the parameters of a single unit. The parameters' values are in
   * memory during `body`, and again when either half of backward runs its operations.
   */
  within<T>(unit: ParameterUnit, body: () => T): T {
    unit.acquire();
    try {
      this.#recordedUnit = unit;
      if (this.recording) this.#nodes.push({ unit, begins: true });
      const result = body();
      if (this.recording) this.#nodes.push({ unit, begins: false });
      return result;
    } finally {
      this.#recordedUnit = undefined;
      unit.release();
    }
  }

  /**
   * Runs both halves of backward. `outputGradient` is the gradient of the last output, absent if all outputs
   * are losses. The caller still owns the tensor.
   */
  backward(output: Variable | readonly Variable[], outputGradient?: Tensor): void {
    this.#playBack(output, outputGradient, { input: true, weight: true });
  }

  /**
   * Runs the input half of backward. Afterwards `takeGradient` returns the gradients of inputs; weight
   * gradients are not changed.
   */
  backwardInput(output: Variable | readonly Variable[], outputGradient?: Tensor): void {
    this.#playBack(output, outputGradient, { input: true, weight: false });
  }

  /** Runs the weight half of backward for all operations that `backwardInput` has processed. */
  backwardWeight(): void {
    const pending = this.#pending;
    this.#pending = [];
    for (const { node, outputGradients, unit } of pending) {
      this.#enterUnit(unit);
      const [outputGradient] = outputGradients;
      const parts = { input: false, weight: true };
      node.backward({ parts, outputGradient, outputGradients, accumulated: [] });
      disposeAll(outputGradients);
      this.#finish(node);
    }
    this.#enterUnit(undefined);
  }

  /**
   * Removes an input's gradient from the tape and returns it; undefined if the input has no gradient. The
   * caller must dispose of the gradient.
   */
  takeGradient(variable: Variable): Tensor | undefined {
    const gradient = this.#gradients.get(variable);
    this.#gradients.delete(variable);
    return gradient;
  }

  /** Frees everything that backward has not freed. */
  dispose(): void {
    for (const { node, outputGradients } of this.#pending) {
      disposeAll(outputGradients);
      this.#free(node);
    }
    for (const recorded of this.#nodes) if ('node' in recorded) this.#free(recorded.node);
    this.#enterUnit(undefined); // backward may have failed while a unit was in use
    for (const gradient of this.#gradients.values()) gradient.dispose();
    this.#nodes = [];
    this.#pending = [];
    this.#gradients.clear();
    this.#parameterUses.clear();
    this.#losses.clear();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #enter(variable: Variable): Variable {
    this.#scopes.at(-1)?.push(variable);
    return variable;
  }

  #playBack(
    output: Variable | readonly Variable[],
    outputGradient: Tensor | undefined,
    parts: BackwardHalves,
  ): void {
    if (!this.recording) throw new UsageError('MTL_TAPE', 'backward on a tape that does not record');
    const outputs = [output].flat();
    this.#checkOutputs(outputs);
    if (outputGradient !== undefined)
      this.#gradients.set(outputs.at(-1)!, outputGradient.view({ shape: outputGradient.shape }));
    // a node stays on the tape until it is done, so that `dispose` frees its tensors after a failure
    for (let recorded = this.#nodes.at(-1); recorded !== undefined; recorded = this.#nodes.at(-1)) {
      this.#playRecorded(recorded, outputs, parts);
      this.#nodes.pop();
    }
  }

  #playRecorded(
    recorded: RecordedNode | UnitBoundary,
    roots: readonly Variable[],
    parts: BackwardHalves,
  ): void {
    if ('unit' in recorded) {
      this.#enterUnit(recorded.begins ? undefined : recorded.unit);
      return;
    }
    const { node, outputs } = recorded;
    for (const each of outputs) this.#playedBack.add(each);
    const gradients = outputs.map((each) => this.takeGradient(each));
    const isRoot = (each: Variable): boolean => roots.includes(each) || this.#losses.has(each);
    if (!gradients.some((gradient) => gradient !== undefined) && !outputs.some(isRoot)) {
      this.#finish(node); // no output depends on this node
      return;
    }
    try {
      this.#playNode(node, gradients, parts);
    } catch (error) {
      disposeAll(gradients);
      throw error;
    }
  }

  /** Releases the unit that backward is using, and acquires `unit`. */
  #enterUnit(unit: ParameterUnit | undefined): void {
    if (unit === this.#unit) return;
    this.#unit?.release();
    this.#unit = undefined;
    unit?.acquire();
    this.#unit = unit;
  }

  #checkOutputs(outputs: readonly Variable[]): void {
    for (const output of outputs) {
      if (!(output instanceof Variable)) {
        throw new UsageError('MTL_TAPE', 'backward of something that is no variable of a tape', {
          expected: 'what an operation on this tape returned, such as a loss',
        });
      }
      if (!this.#playedBack.has(output)) continue;
      throw new UsageError('MTL_TAPE', 'backward a second time: the tape has been played back', {
        remedy:
          'run the forward again; of several losses pass all to one backward: tape.backward([first, second])',
      });
    }
  }

  #playNode(node: TapeNode, outputGradients: readonly (Tensor | undefined)[], parts: BackwardHalves): void {
    const accumulated = node.inputs.map((input) => this.#gradients.get(input));
    const [outputGradient] = outputGradients;
    const gradients = node.backward({ parts, outputGradient, outputGradients, accumulated });
    node.inputs.forEach((input, position) => {
      const gradient = gradients[position];
      if (gradient !== undefined) this.#addGradient(input, gradient, node.addsAccumulated === true);
    });
    if (parts.weight || !(node.hasWeightPart ?? node.parameters.length > 0)) {
      disposeAll(outputGradients);
      this.#finish(node);
    } else {
      this.#pending.push({ node, outputGradients, unit: this.#unit });
    }
  }

  #addGradient(variable: Variable, gradient: Tensor, isTotal: boolean): void {
    const before = this.#gradients.get(variable);
    if (before === undefined || isTotal) {
      before?.dispose();
      this.#gradients.set(variable, gradient);
      return;
    }
    // the sum needs new memory, because either operand may be a view of a gradient that is still read
    // elsewhere
    const total = Tensor.empty({ shape: gradient.shape, dtype: gradient.dtype, device: gradient.device });
    add({ output: total, left: before, right: gradient });
    before.dispose();
    gradient.dispose();
    this.#gradients.set(variable, total);
  }

  #finish(node: TapeNode): void {
    for (const parameter of node.parameters) {
      parameter.keepGradient();
      const uses = this.#parameterUses.get(parameter)! - 1;
      this.#parameterUses.set(parameter, uses);
      if (uses === 0) parameter.notifyGradientReady();
    }
    this.#free(node);
  }

  #free(node: TapeNode): void {
    for (const saved of node.saved) saved.release();
  }
}

/**
 * Returns a recipe that first brings the parameter values of its unit into memory, because the consumer may
 * belong to a different unit than the recipe.
 */
function withUnit({ dependencies, compute }: Recipe, unit: ParameterUnit | undefined): Recipe {
  if (unit === undefined) return { dependencies, compute };
  return {
    dependencies,
    compute: () => {
      unit.acquire();
      try {
        return compute();
      } finally {
        unit.release();
      }
    },
  };
}

function disposeAll(tensors: readonly (Tensor | undefined)[]): void {
  for (const tensor of tensors) tensor?.dispose();
}
