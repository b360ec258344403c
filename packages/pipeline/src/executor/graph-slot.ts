import { KernelError } from '@mtl/errors';
import { cast, type Device, type DeviceGraph, GraphMemory, Tensor, type TensorOptions } from '@mtl/kernels';
import type { Stage, StageForward, StageLoss, Upload } from '../stage.js';
import type { RecordingRules } from './recording-rules.js';

/**
 * Tensors on a device whose addresses are fixed, so that new values can be copied into them before each
 * launch. A tensor is identified by its position in the order of uploads and copies, its shape and its dtype.
 * Tensors marked by `keep` exist until `dispose`. Every other tensor is replaced if the next upload at its
 * position has a different shape or dtype.
 */
class FixedTensors {
  readonly #kept = new Map<string, Tensor>();
  #others: (Tensor | undefined)[] = [];
  #used: Tensor[] = [];

  /**
   * Restarts at the first fixed tensor. Each call of the returned function copies values into the next tensor
   * and returns a view of this tensor.
   */
  upload(): Upload {
    this.#used = [];
    return (values, options) => this.#next(options, (tensor) => tensor.write(values));
  }

  /** Copies a tensor on the device into the next fixed tensor, and returns a view of the fixed tensor. */
  copy(input: Tensor): Tensor {
    const { shape, dtype, device } = input;
    return this.#next({ shape, dtype, device }, (output) => cast({ output, input }));
  }

  /**
   * The shapes and dtypes of the tensors used since `upload`, in order, as a string. Two rounds with equal
   * strings use the same kept tensors.
   */
  get shapes(): string {
    return this.#used.map(({ dtype, shape }) => `${dtype} [${shape.join(', ')}]`).join(', ');
  }

  /** Marks the tensors used since `upload` as kept. */
  keep(): void {
    this.#used.forEach((tensor, position) => {
      this.#kept.set(formatKey(position, tensor), tensor);
      if (this.#others[position] === tensor) this.#others[position] = undefined;
    });
  }

  dispose(): void {
    for (const tensor of [...this.#kept.values(), ...this.#others]) tensor?.dispose();
    this.#kept.clear();
    this.#others = [];
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #next(options: Required<TensorOptions>, fill: (tensor: Tensor) => void): Tensor {
    const tensor = this.#tensorAt(this.#used.length, options);
    fill(tensor);
    this.#used.push(tensor);
    return tensor.view({ shape: tensor.shape });
  }

  #tensorAt(position: number, options: Required<TensorOptions>): Tensor {
    const key = formatKey(position, options);
    const other = this.#others[position];
    const fitting = this.#kept.get(key) ?? (other && formatKey(position, other) === key ? other : undefined);
    if (fitting !== undefined) return fitting;
    other?.dispose();
    const tensor = Tensor.empty(options);
    this.#others[position] = tensor;
    return tensor;
  }
}

function formatKey(position: number, { shape, dtype }: Pick<Tensor, 'shape' | 'dtype'>): string {
  return `${position} ${dtype} ${shape.join(' ')}`;
}

interface GraphSlotOptions<Batch> {
  /** The stage, which must have `load`. */
  readonly stage: Stage<Batch>;
  readonly device: Device;
  /** The recording rules, which all slots of the stage share. */
  readonly rules: RecordingRules;
}

type Halves = 'together' | 'apart';
type BackwardCall = Parameters<Stage<unknown>['backwardInput']>[0];

/**
 * The recorded forward and backward passes for micro-batches with the same shapes. The tensors are in the
 * slot's memory.
 */
interface Recording {
  readonly shapes: string;
  readonly forward: DeviceGraph;
  /** Absent on the last stage. */
  readonly output: Tensor | undefined;
  /** The graph of the complete backward pass, or of its input half. */
  backward?: DeviceGraph;
  /** The graph of the weight half, if the backward pass is split. */
  weight?: DeviceGraph;
  halves?: Halves;
  /** Absent on the first stage. */
  inputGradient?: Tensor | undefined;
  losses?: readonly StageLoss[];
}

/** A micro-batch between its forward pass and its backward pass, and the way these passes run. */
interface InFlight<Batch> {
  /** The inputs of the forward pass. If the passes run as graphs, `input` is the slot's own copy. */
  readonly call: StageForward<Batch>;
  kind: 'eager' | 'recording' | 'recorded';
  readonly recording?: Recording;
  /** The slot's own copy of the output gradient, during recording. */
  outputGradient?: Tensor | undefined;
}

/**
 * Memory and graphs for one micro-batch at a time. Its forward and backward passes through a stage are
 * recorded once and then launched. A stage has a slot for each micro-batch in flight. A slot contains:
 * - memory for all tensors of the passes, which no other pass uses between the micro-batch's
 *   forward and backward passes
 * - fixed tensors for the inputs
 * - the graphs of each shape
 *
 * The outputs are copied, because they may still be in transfer when the graphs are launched again.
 */
export class GraphSlot<Batch> {
  readonly #options: GraphSlotOptions<Batch>;
  readonly #memory: GraphMemory;
  readonly #inputs = new FixedTensors();
  readonly #recordings = new Map<string, Recording>();
  #inFlight: InFlight<Batch> | undefined;
  #losses: readonly StageLoss[] | undefined;
  #hasMemory = true;

  constructor(options: GraphSlotOptions<Batch>) {
    this.#options = options;
    this.#memory = new GraphMemory(options.device);
  }

  /**
   * True if the slot has no micro-batch in flight, that is, after a backward pass and before the next forward
   * pass.
   */
  get isFree(): boolean {
    return this.#inFlight === undefined;
  }

  /**
   * Runs the stage's `forward`. If `isAlone` is true, launches the operations one by one, without a graph.
   */
  forward(call: StageForward<Batch>, { isAlone }: { readonly isAlone: boolean }): Tensor | undefined {
    const { stage, rules } = this.#options;
    this.#losses = undefined;
    if (isAlone || (rules.isOver && this.#recordings.size === 0)) return this.#forwardEagerly(call);
    const upload = this.#inputs.upload();
    const input = call.input && this.#inputs.copy(call.input);
    const loaded = stage.load!(call, upload);
    const shapes = `${this.#inputs.shapes} ${loaded.variant ?? ''}`;
    const own = { ...call, input };
    const recording = this.#recordings.get(shapes);
    if (recording !== undefined) {
      loaded.release();
      recording.forward.launch();
      this.#inFlight = { call: own, kind: 'recorded', recording };
      return this.#copyInput(recording.output);
    }
    if (rules.isToBeRecorded(shapes)) return this.#recordForward({ ...own, loaded }, { shapes, given: call });
    input?.dispose();
    return this.#forwardEagerly({ ...call, loaded });
  }

  /** Runs the stage's `backwardInput`. */
  backwardInput(call: BackwardCall): Tensor | undefined {
    const inFlight = this.#inFlight!;
    const halves: Halves = call.weights === true ? 'together' : 'apart';
    let gradient: Tensor | undefined;
    if (inFlight.kind === 'recorded' && inFlight.recording!.halves !== halves) this.#forwardAgain(inFlight);
    if (inFlight.kind === 'eager') gradient = this.#backwardEagerly(call);
    else if (inFlight.kind === 'recording') gradient = this.#recordBackward(inFlight, call);
    else gradient = this.#launchBackward(inFlight.recording!, call);
    if (halves === 'together') this.#land();
    return gradient;
  }

  /** Runs the stage's `backwardWeight`. */
  backwardWeight(call: { readonly microBatch: number }): void {
    const inFlight = this.#inFlight!;
    const { stage } = this.#options;
    if (inFlight.kind === 'recorded') inFlight.recording!.weight!.launch();
    else if (inFlight.kind === 'recording') this.#recordWeight(inFlight);
    else this.#runEagerly(() => stage.backwardWeight(call));
    this.#land();
  }

  /** Returns the stage's losses, after `backwardInput`. */
  takeLosses(microBatch: number): readonly StageLoss[] {
    if (this.#losses === undefined) return this.#options.stage.takeLosses(microBatch);
    const losses = this.#losses.map(viewLoss);
    this.#losses = undefined;
    return losses;
  }

  /** Forgets the micro-batch in flight. The caller informs the stage. */
  abandon(): void {
    if (this.#inFlight?.kind === 'recording') dispose(this.#inFlight.recording!);
    this.#losses = undefined;
    this.#land();
  }

  /** Releases the graphs and their memory. Must be called between steps. */
  dispose(): void {
    for (const recording of this.#recordings.values()) dispose(recording);
    this.#recordings.clear();
    this.#inputs.dispose();
    this.#memory.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #recordForward(
    call: StageForward<Batch>,
    { shapes, given }: { readonly shapes: string; readonly given: StageForward<Batch> },
  ): Tensor | undefined {
    const { stage, rules } = this.#options;
    let output: Tensor | undefined;
    const forward = rules.record(this.#memory, () => {
      output = stage.forward(call);
    });
    if (forward === undefined) {
      output?.dispose();
      call.input?.dispose();
      stage.abandon(call.microBatch);
      return this.#forwardEagerly(given);
    }
    forward.launch();
    const { loaded: _, ...again } = call; // the stage already owns `loaded`
    this.#inFlight = { call: again, kind: 'recording', recording: { shapes, forward, output } };
    return this.#copyInput(output);
  }

  #recordBackward(inFlight: InFlight<Batch>, call: BackwardCall): Tensor | undefined {
    const { stage, rules } = this.#options;
    const recording = inFlight.recording!;
    const { microBatch } = call;
    inFlight.outputGradient = call.outputGradient && this.#inputs.copy(call.outputGradient);
    const { outputGradient } = inFlight;
    let inputGradient: Tensor | undefined;
    const backward = rules.record(this.#memory, () => {
      inputGradient = stage.backwardInput({ ...call, outputGradient });
    });
    recording.inputGradient = inputGradient;
    if (backward === undefined) {
      this.#forwardAgain(inFlight);
      return this.#backwardEagerly(call);
    }
    recording.backward = backward;
    recording.losses = stage.takeLosses(microBatch);
    recording.halves = call.weights === true ? 'together' : 'apart';
    backward.launch();
    this.#losses = recording.losses;
    if (recording.halves === 'together') this.#keep(recording);
    return this.#copyInput(inputGradient);
  }

  #recordWeight(inFlight: InFlight<Batch>): void {
    const { stage, rules } = this.#options;
    const { microBatch } = inFlight.call;
    const weight = rules.record(this.#memory, () => stage.backwardWeight({ microBatch }));
    if (weight !== undefined) {
      inFlight.recording!.weight = weight;
      weight.launch();
      this.#keep(inFlight.recording!);
      return;
    }
    // the input half of the backward pass does not change weight gradients, so the micro-batch can be
    // repeated from its forward pass
    const { outputGradient } = inFlight;
    this.#forwardAgain(inFlight);
    this.#runEagerly(() => {
      stage.backwardInput({ microBatch, outputGradient })?.dispose();
      for (const loss of stage.takeLosses(microBatch)) loss.dispose();
      stage.backwardWeight({ microBatch });
    });
  }

  #launchBackward(recording: Recording, { outputGradient }: BackwardCall): Tensor | undefined {
    if (outputGradient !== undefined) this.#inputs.copy(outputGradient).dispose();
    recording.backward!.launch();
    this.#losses = recording.losses;
    return this.#copyInput(recording.inputGradient);
  }

  #keep(recording: Recording): void {
    this.#inputs.keep();
    this.#recordings.set(recording.shapes, recording);
    this.#options.rules.recorded(recording.shapes);
  }

  #forwardEagerly(call: StageForward<Batch>): Tensor | undefined {
    const output = this.#runEagerly(() => this.#options.stage.forward(call));
    this.#inFlight = { call: { ...call, input: undefined, loaded: undefined }, kind: 'eager' };
    return this.#outside(output);
  }

  #backwardEagerly(call: BackwardCall): Tensor | undefined {
    return this.#outside(this.#runEagerly(() => this.#options.stage.backwardInput(call)));
  }

  /**
   * Repeats the forward pass, so that the backward pass can run without a graph. The gradients do not contain
   * the micro-batch yet.
   */
  #forwardAgain(inFlight: InFlight<Batch>): void {
    const { stage } = this.#options;
    if (inFlight.kind === 'recording') {
      this.#losses = undefined;
      dispose(inFlight.recording!);
      stage.abandon(inFlight.call.microBatch);
    }
    inFlight.kind = 'eager';
    this.#runEagerly(() => stage.forward(inFlight.call)?.dispose());
  }

  /**
   * Runs a pass without a graph. It uses the graphs' memory, which is idle, or the device's memory if there
   * are no graphs.
   */
  #runEagerly<Result>(pass: () => Result): Result {
    const isOver = this.#options.rules.isOver && this.#recordings.size === 0;
    if (this.#hasMemory && isOver) this.#giveMemoryBack();
    return this.#hasMemory && !isOver ? this.#memory.run(pass) : pass();
  }

  /** Releases the memory that was reserved for graphs, because none will be recorded. */
  #giveMemoryBack(): void {
    this.#inputs.dispose();
    try {
      this.#memory.dispose();
      this.#hasMemory = false;
    } catch (error) {
      // losses of this step may still use this memory, so the release is tried again before the next pass
      if (!(error instanceof KernelError) || error.code !== 'MTL_ARGUMENT') throw error;
    }
  }

  /** Copies `result`, made by a pass that ran without a graph, out of the slot's memory. */
  #outside(result: Tensor | undefined): Tensor | undefined {
    if (result === undefined || !this.#hasMemory) return result;
    const copy = this.#copyInput(result);
    result.dispose();
    return copy;
  }

  #copyInput(input: Tensor | undefined): Tensor | undefined {
    if (input === undefined) return undefined;
    const { shape, dtype, device } = input;
    const output = Tensor.empty({ shape, dtype, device });
    cast({ output, input });
    return output;
  }

  #land(): void {
    const inFlight = this.#inFlight;
    this.#inFlight = undefined;
    if (inFlight === undefined) return;
    inFlight.call.input?.dispose();
    inFlight.outputGradient?.dispose();
  }
}

function dispose({ forward, backward, weight, output, inputGradient, losses = [] }: Recording): void {
  for (const part of [forward, backward, weight, output, inputGradient, ...losses]) part?.dispose();
}

function viewLoss({ losses, weights, ...more }: StageLoss): StageLoss {
  const views = {
    losses: losses.view({ shape: losses.shape }),
    weights: weights.view({ shape: weights.shape }),
  };
  return {
    ...more,
    ...views,
    dispose: () => {
      for (const view of Object.values(views)) view.dispose();
    },
  };
}
