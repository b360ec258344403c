import { ConfigurationError, UsageError } from '@mtl/errors';
import type { Device, Tensor } from '@mtl/kernels';
import type { Stage, StageForward, StageLoss } from '../stage.js';
import { GraphSlot } from './graph-slot.js';
import { RecordingRules } from './recording-rules.js';

export interface GraphedStageOptions<Batch> {
  /**
   * A model, or a model chunk of a pipeline. Its forward and backward passes must not communicate with other
   * processes.
   */
  readonly stage: Stage<Batch>;
  /** A device with graphs (`supportsGraphs`). */
  readonly device: Device;
  /**
   * This function is called before passes are recorded or launched. It must finish the communication for
   * which the stage would otherwise wait when it reads its tensors, for example gathered parameters.
   */
  readonly beforePasses?: (() => void) | undefined;
  /**
   * True if the micro-batch that completes the gradients of a step runs without a graph, so that hooks on
   * gradients can start reductions. Default: false.
   */
  readonly lastRunsEagerly?: boolean | undefined;
  /** Called once, when passes are first launched as graphs. */
  readonly onMessage: (text: string) => void;
  /**
   * This function is called once for each reason why some or all passes are not launched as graphs. Default:
   * `onMessage`.
   */
  readonly onRefusal?: ((text: string) => void) | undefined;
}

/**
 * A stage whose forward and backward passes are recorded (CUDA graphs). A single call then launches a whole
 * pass instead of some hundreds of operations. The first micro-batch of each shape runs without a graph, so
 * that libraries choose their algorithms. Later micro-batches are recorded once in every slot and then
 * launched. A slot has the memory of one micro-batch in flight (see `GraphSlot`). The number of slots is the
 * schedule's maximum number of micro-batches in flight. Evaluation runs without graphs. The results have the
 * same bits as without graphs.
 */
export class GraphedStage<Batch> implements Stage<Batch> {
  readonly #options: GraphedStageOptions<Batch>;
  readonly #rules: RecordingRules;
  readonly #slots: GraphSlot<Batch>[];
  /** The slots in use, by micro-batch, from the start of the forward pass to the end of the backward pass. */
  readonly #inFlight = new Map<number, GraphSlot<Batch>>();
  /** The slots that hold losses, by micro-batch, until the losses are taken. */
  readonly #losses = new Map<number, GraphSlot<Batch>>();

  /**
   * @throws ConfigurationError `MTL_CUDA_GRAPHS` for a stage without `load`, because its passes differ in
   *   more than the values of tensors
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

  /** @throws UsageError `MTL_STAGE` for a micro-batch that is already in flight */
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
    const slot = this.#findSlot(microBatch);
    const gradient = slot.backwardInput(call);
    this.#losses.set(microBatch, slot);
    if (call.weights === true) this.#inFlight.delete(microBatch);
    return gradient;
  }

  backwardWeight(call: { readonly microBatch: number }): void {
    this.#findSlot(call.microBatch).backwardWeight(call);
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

  /** Releases the graphs and their memory. Must be called between steps. The caller still owns the stage. */
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

  #findSlot(microBatch: number): GraphSlot<Batch> {
    const slot = this.#inFlight.get(microBatch);
    if (slot === undefined) throw new UsageError('MTL_STAGE', `micro-batch ${microBatch} is not in flight`);
    return slot;
  }
}
