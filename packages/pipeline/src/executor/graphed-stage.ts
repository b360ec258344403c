import { ConfigurationError, UsageError } from '@mtl/errors';
import type { Device, Tensor } from '@mtl/kernels';
import type { Stage, StageForward, StageLoss } from '../stage.js';
import { GraphSlot } from './graph-slot.js';
import { RecordingRules } from './recording-rules.js';

export interface GraphedStageOptions<Batch> {
  /** A model, or a model chunk of a pipeline, whose passes do not communicate with other processes. */
  readonly stage: Stage<Batch>;
  /** A device with graphs (`supportsGraphs`). */
  readonly device: Device;
  /**
   * Called before passes are recorded or launched. It reads the tensors that a stage would wait for when it
   * reads them (parameters that are gathered).
   */
  readonly beforePasses?: (() => void) | undefined;
  /**
   * The micro-batch of a step that completes the gradients runs eagerly: hooks on gradients start reductions.
   * Default: false.
   */
  readonly lastRunsEagerly?: boolean | undefined;
  /** Called once, when passes are launched as graphs from here on. */
  readonly onMessage: (text: string) => void;
  /**
   * Called once for each reason why passes, all or some, are not launched as graphs. Default: `onMessage`.
   */
  readonly onRefusal?: ((text: string) => void) | undefined;
}

/**
 * A stage whose passes are recorded (CUDA graphs) and then launched with one call each, instead of some
 * hundreds of operations. The first micro-batch of a shape runs eagerly, so that libraries choose their
 * algorithms; later micro-batches are recorded once in every slot and launched. A slot holds the memory of
 * one micro-batch in flight (`GraphSlot`); the number of slots is the number of micro-batches that the
 * schedule has in flight at once. Evaluation runs eagerly. Results have the same bits.
 */
export class GraphedStage<Batch> implements Stage<Batch> {
  readonly #options: GraphedStageOptions<Batch>;
  readonly #rules: RecordingRules;
  readonly #slots: GraphSlot<Batch>[];
  /** The slots by micro-batch, from its forward on to the end of its backward. */
  readonly #inFlight = new Map<number, GraphSlot<Batch>>();
  /** The slots with losses by micro-batch, until they are taken. */
  readonly #losses = new Map<number, GraphSlot<Batch>>();

  /**
   * @throws ConfigurationError `MTL_CUDA_GRAPHS` for a stage without `load`: its passes differ in more than
   *   the values of tensors
   * @throws KernelError `MTL_UNSUPPORTED` for a device without graphs
   */
  constructor(options: GraphedStageOptions<Batch>) {
    this.#options = options;
    const { onMessage, onRefusal = onMessage } = options;
    this.#rules = new RecordingRules({ onMessage, onRefusal });
    if (options.stage.load === undefined) {
      throw new ConfigurationError(
        'MTL_CUDA_GRAPHS',
        'passes of this model cannot be recorded: they differ in more than what is in tensors',
        { remedy: 'leave --cuda-graphs out' },
      );
    }
    this.#slots = [this.#newSlot()];
  }

  get isFirst(): boolean {
    return this.#options.stage.isFirst;
  }

  get isLast(): boolean {
    return this.#options.stage.isLast;
  }

  boundaryShape(batch: Batch): readonly number[] {
    return this.#options.stage.boundaryShape(batch);
  }

  /** @throws UsageError `MTL_STAGE` for a micro-batch that is in flight already */
  forward(call: StageForward<Batch>): Tensor | undefined {
    const { microBatch } = call;
    if (this.#inFlight.has(microBatch)) {
      throw new UsageError('MTL_STAGE', `micro-batch ${microBatch} is in flight already`);
    }
    const { lastRunsEagerly = false, beforePasses } = this.#options;
    const isAlone = lastRunsEagerly && call.endsStep === true;
    let slot = this.#slots.find(({ isFree }) => isFree);
    if (slot === undefined) {
      slot = this.#newSlot();
      this.#slots.push(slot);
    }
    if (!isAlone) beforePasses?.();
    const output = slot.forward(call, { isAlone });
    this.#inFlight.set(microBatch, slot);
    return output;
  }

  backwardInput(call: Parameters<Stage<Batch>['backwardInput']>[0]): Tensor | undefined {
    const { microBatch } = call;
    const slot = this.#slotOf(microBatch);
    const gradient = slot.backwardInput(call);
    this.#losses.set(microBatch, slot);
    if (call.weights === true) this.#inFlight.delete(microBatch);
    return gradient;
  }

  backwardWeight(call: { readonly microBatch: number }): void {
    this.#slotOf(call.microBatch).backwardWeight(call);
    this.#inFlight.delete(call.microBatch);
  }

  takeLosses(microBatch: number): readonly StageLoss[] {
    const slot = this.#losses.get(microBatch);
    this.#losses.delete(microBatch);
    return slot === undefined ? this.#options.stage.takeLosses(microBatch) : slot.takeLosses(microBatch);
  }

  evaluate(call: StageForward<Batch>): Tensor | undefined {
    return this.#options.stage.evaluate(call);
  }

  abandon(microBatch?: number): void {
    const slots = microBatch === undefined ? this.#slots : [this.#inFlight.get(microBatch)];
    for (const slot of slots) slot?.abandon();
    if (microBatch === undefined) {
      this.#inFlight.clear();
      this.#losses.clear();
    } else {
      this.#inFlight.delete(microBatch);
      this.#losses.delete(microBatch);
    }
    this.#options.stage.abandon(microBatch);
  }

  /** Releases graphs and their memory. Call it between steps. The caller still owns the stage. */
  dispose(): void {
    for (const slot of this.#slots) slot.dispose();
    this.#slots.length = 0;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #newSlot(): GraphSlot<Batch> {
    const { stage, device } = this.#options;
    return new GraphSlot({ stage, device, rules: this.#rules });
  }

  #slotOf(microBatch: number): GraphSlot<Batch> {
    const slot = this.#inFlight.get(microBatch);
    if (slot === undefined) throw new UsageError('MTL_STAGE', `micro-batch ${microBatch} is not in flight`);
    return slot;
  }
}
