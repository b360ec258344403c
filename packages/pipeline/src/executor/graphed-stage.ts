import { KernelError, UsageError } from '@mtl/errors';
import { type Device, type DeviceGraph, GraphMemory, type Tensor } from '@mtl/kernels';
import type { Stage, StageForward, StageLoss } from '../stage.js';
import { FixedTensors } from './fixed-tensors.js';

export interface GraphedStageOptions<Batch> {
  /** The whole model; of one without `load` nothing can be recorded. */
  readonly stage: Stage<Batch>;
  /** One with graphs (`supportsGraphs`). */
  readonly device: Device;
  /**
   * Called before passes are recorded or launched: reads what a stage would wait for when it reads it
   * (parameters that are gathered).
   */
  readonly beforePasses?: (() => void) | undefined;
  /**
   * The last micro-batch of a step runs as always: hooks on its gradients start reductions. Default: false.
   */
  readonly lastRunsByItself?: boolean | undefined;
  /** Told, each once, that passes are launched as graphs from here on, or why they are not, or not all. */
  readonly onMessage: (text: string) => void;
}

/** After which passes go on one by one. */
const refusals: readonly string[] = ['MTL_CAPTURE', 'MTL_OUT_OF_MEMORY'];

/** The passes over a micro-batch of one shape, recorded. */
interface Recorded {
  readonly shapes: string;
  readonly forward: DeviceGraph;
  readonly backward: DeviceGraph;
  /** In memory of the graphs: what the last backward has left there. */
  readonly loss: StageLoss;
}

/** How the passes of the micro-batch between forward and backward are run. */
interface Flight<Batch> {
  readonly call: StageForward<Batch>;
  readonly forward: 'by itself' | 'recording' | 'as recorded';
  /** While recording. */
  readonly graph?: DeviceGraph | undefined;
}

/**
 * A stage whose passes are recorded once (CUDA graphs) and then launched with two calls a micro-batch,
 * instead of some hundreds: what a process with the whole model runs, forward and backward of a micro-batch
 * after each other. The first micro-batch runs as always, so that libraries choose their algorithms; the
 * second of the same shape is recorded and launched; later ones of that shape are copied into the tensors of
 * the second and launched. What differs in shape, and evaluation, runs as always. Results are the same bits.
 */
export class GraphedStage<Batch> implements Stage<Batch> {
  readonly #stage: Stage<Batch>;
  readonly #options: GraphedStageOptions<Batch>;
  readonly #memory: GraphMemory;
  readonly #inputs: FixedTensors;
  #recorded: Recorded | undefined;
  #shapesBefore: string | undefined;
  #flight: Flight<Batch> | undefined;
  /** The loss of the last micro-batch lies where graphs leave it. */
  #hasRecordedLoss = false;
  #cannotRecord: boolean;
  readonly #said = new Set<string>();

  constructor(options: GraphedStageOptions<Batch>) {
    const { stage, device } = options;
    this.#stage = stage;
    this.#options = options;
    this.#memory = new GraphMemory(device);
    this.#inputs = new FixedTensors();
    this.#cannotRecord = stage.load === undefined;
    if (!this.#cannotRecord) return;
    this.#giveMemoryBack();
    this.#sayNotUsed('passes of this model differ in more than what is in tensors');
  }

  get isFirst(): boolean {
    return this.#stage.isFirst;
  }

  get isLast(): boolean {
    return this.#stage.isLast;
  }

  boundaryShape(batch: Batch): readonly number[] {
    return this.#stage.boundaryShape(batch);
  }

  /**
   * @throws UsageError `MTL_STAGE` for a second micro-batch before the backward of the first, and for one
   *   with an input
   */
  forward(call: StageForward<Batch>): undefined {
    if (this.#flight !== undefined || call.input !== undefined) {
      throw new UsageError(
        'MTL_STAGE',
        'passes that are recorded are those of one micro-batch of a whole model at a time',
      );
    }
    this.#hasRecordedLoss = false;
    const { lastRunsByItself = false, beforePasses } = this.#options;
    if (this.#cannotRecord || (lastRunsByItself && call.endsStep === true)) {
      this.#forwardByItself(call);
      return;
    }
    beforePasses?.();
    const loaded = this.#stage.load!(call, this.#inputs.upload());
    const shapes = this.#inputs.shapes;
    if (this.#recorded?.shapes === shapes) {
      loaded.release();
      this.#recorded.forward.launch();
      this.#flight = { call, forward: 'as recorded' };
      return;
    }
    if (!this.#isToBeRecorded(shapes)) {
      this.#forwardByItself({ ...call, loaded });
      return;
    }
    const graph = this.#record(() => void this.#stage.forward({ ...call, loaded }));
    if (graph === undefined) {
      this.#forwardByItself(call);
      return;
    }
    graph.launch();
    this.#flight = { call, forward: 'recording', graph };
  }

  /** @throws UsageError `MTL_STAGE` for the input half alone */
  backwardInput(call: { readonly microBatch: number; readonly weights?: boolean }): undefined {
    const flight = this.#flight;
    if (flight?.call.microBatch !== call.microBatch || call.weights !== true) {
      throw new UsageError(
        'MTL_STAGE',
        'passes that are recorded are whole: forward, then both halves of backward',
      );
    }
    if (flight.forward === 'as recorded') this.#launchBackward();
    else if (flight.forward === 'by itself') this.#runByItself(() => this.#stage.backwardInput(call));
    else this.#recordBackward(flight, call);
    this.#flight = undefined;
  }

  /** @throws UsageError `MTL_STAGE` always: weights have their gradients after `backwardInput` */
  backwardWeight(): void {
    throw new UsageError('MTL_STAGE', 'passes that are recorded have no weight half of their own');
  }

  takeLoss(microBatch: number): StageLoss {
    if (!this.#hasRecordedLoss) return this.#stage.takeLoss(microBatch);
    this.#hasRecordedLoss = false;
    return viewOf(this.#recorded!.loss);
  }

  evaluate(call: StageForward<Batch>): Tensor | undefined {
    this.#hasRecordedLoss = false;
    return this.#stage.evaluate(call);
  }

  abandon(): void {
    this.#flight?.graph?.dispose();
    this.#flight = undefined;
    this.#hasRecordedLoss = false;
    this.#stage.abandon();
  }

  /** Gives graphs and their memory back: between steps. The stage stays the caller's. */
  dispose(): void {
    const recorded = this.#recorded;
    this.#recorded = undefined;
    for (const part of [recorded?.forward, recorded?.backward, recorded?.loss, this.#inputs]) part?.dispose();
    this.#memory.dispose();
  }

  /** The second micro-batch of a shape in a row; of different ones it says so. */
  #isToBeRecorded(shapes: string): boolean {
    const before = this.#shapesBefore;
    this.#shapesBefore = shapes;
    if (before !== undefined && before !== shapes) {
      this.#say('CUDA graphs: micro-batches differ in shape; only those of one shape are launched as graphs');
    }
    return this.#recorded === undefined && before === shapes;
  }

  #forwardByItself(call: StageForward<Batch>): void {
    this.#runByItself(() => this.#stage.forward(call));
    this.#flight = { call, forward: 'by itself' };
  }

  /** In the memory of the graphs, which would lie idle meanwhile; without graphs in the device's. */
  #runByItself(pass: () => unknown): void {
    if (!this.#cannotRecord) {
      this.#memory.run(pass);
      return;
    }
    this.#giveMemoryBack();
    pass();
  }

  /** Of graphs that there will not be. */
  #giveMemoryBack(): void {
    this.#inputs.dispose();
    try {
      this.#memory.dispose();
    } catch (error) {
      // losses of this step may still have some: it is tried again before every pass
      if (!(error instanceof KernelError) || error.code !== 'MTL_ARGUMENT') throw error;
    }
  }

  #launchBackward(): void {
    this.#recorded!.backward.launch();
    this.#hasRecordedLoss = true;
  }

  #recordBackward({ call: forwardCall, graph }: Flight<Batch>, call: { readonly microBatch: number }): void {
    const whole = { ...call, weights: true };
    const backward = this.#record(() => void this.#stage.backwardInput(whole));
    if (backward !== undefined) {
      const loss = this.#stage.takeLoss(call.microBatch);
      this.#inputs.keep();
      this.#recorded = { shapes: this.#inputs.shapes, forward: graph!, backward, loss };
      this.#launchBackward();
      this.#say('CUDA graphs: passes over micro-batches are launched as graphs from here on');
      return;
    }
    // nothing has been added to a gradient yet: once more from the start
    graph!.dispose();
    this.#runByItself(() => {
      this.#stage.forward(forwardCall);
      this.#stage.backwardInput(whole);
    });
  }

  /**
   * The graph of what `body` does; undefined, said once and never tried again, where the device refuses or
   * has no memory for it: one by one, and without memory that only graphs use, there may be enough.
   */
  #record(body: () => void): DeviceGraph | undefined {
    try {
      return this.#memory.capture(body);
    } catch (error) {
      this.#stage.abandon();
      if (!(error instanceof KernelError) || !refusals.includes(error.code)) throw error;
      this.#cannotRecord = true;
      this.#sayNotUsed(error.message);
      return undefined;
    }
  }

  #sayNotUsed(why: string): void {
    this.#say(`CUDA graphs: not used, operations are launched one by one: ${why}`);
  }

  #say(text: string): void {
    if (this.#said.has(text)) return;
    this.#said.add(text);
    this.#options.onMessage(text);
  }
}

function viewOf({ losses, weights, ...more }: StageLoss): StageLoss {
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
