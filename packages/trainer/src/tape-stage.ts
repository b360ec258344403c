import { Tape, type Variable } from '@mtl/autograd';
import type { Tensor } from '@mtl/kernels';
import type { Stage, StageForward, StageLoss } from '@mtl/pipeline';

/** The losses of a micro-batch on its tape, such as one loss per token. */
interface TapeLosses {
  readonly losses: Variable;
  /**
   * float32, with the same number of elements as `losses`: the factor by which each loss is multiplied in the
   * total loss and in its gradient.
   */
  readonly weights: Variable;
}

/**
 * Computes the losses of a micro-batch on `tape`. `lossFactor` is the weight for each loss that counts, by
 * which it is multiplied in the total of the global batch.
 */
type TapeForward<Batch> = (
  tape: Tape,
  call: { readonly batch: Batch; readonly lossFactor: number },
) => TapeLosses;

interface TapeStageOptions {
  /** The name of the loss in `TrainerOptions.losses`. Default: `lm_loss`. */
  readonly lossName?: string;
}

/** A complete model as a single pipeline stage: a function that computes its losses with @mtl/autograd. */
export class TapeStage<Batch> implements Stage<Batch> {
  readonly isFirst = true;
  readonly isLast = true;
  readonly #forward: TapeForward<Batch>;
  readonly #lossName: string;
  /** The tapes of micro-batches whose backward pass has not ended. */
  readonly #tapes = new Map<number, Tape>();
  /** The losses that `takeLosses` has not returned yet. */
  readonly #losses = new Map<number, TapeLosses>();

  constructor(forward: TapeForward<Batch>, { lossName = 'lm_loss' }: TapeStageOptions = {}) {
    this.#forward = forward;
    this.#lossName = lossName;
  }

  boundaryShape(): readonly number[] {
    return [];
  }

  forward(call: StageForward<Batch>): undefined {
    const tape = new Tape();
    this.#tapes.set(call.microBatch, tape);
    this.#run(tape, call);
  }

  evaluate(call: StageForward<Batch>): undefined {
    using tape = new Tape({ recording: false });
    this.#run(tape, call);
  }

  backwardInput({
    microBatch,
    weights = false,
  }: {
    readonly microBatch: number;
    readonly weights?: boolean;
  }): undefined {
    const tape = this.#tapes.get(microBatch)!;
    const { losses } = this.#losses.get(microBatch)!;
    if (weights) {
      tape.backward(losses);
      this.#endBackward(microBatch);
    } else {
      tape.backwardInput(losses);
    }
  }

  backwardWeight({ microBatch }: { readonly microBatch: number }): void {
    this.#tapes.get(microBatch)!.backwardWeight();
    this.#endBackward(microBatch);
  }

  takeLosses(microBatch: number): readonly StageLoss[] {
    const { losses, weights } = this.#losses.get(microBatch)!;
    const flat = ({ tensor }: Variable): Tensor => tensor.view({ shape: [tensor.size] });
    const views = { losses: flat(losses), weights: flat(weights) };
    this.#releaseLosses(microBatch); // the returned views keep the memory alive
    const dispose = (): void => {
      for (const view of Object.values(views)) view.dispose();
    };
    return [{ name: this.#lossName, ...views, dispose }];
  }

  abandon(microBatch?: number): void {
    const abandoned =
      microBatch === undefined ? [...this.#tapes.keys(), ...this.#losses.keys()] : [microBatch];
    for (const each of abandoned) {
      this.#endBackward(each);
      this.#releaseLosses(each);
    }
  }

  #run(tape: Tape, { microBatch, batch, lossFactors }: StageForward<Batch>): void {
    // NaN is never actually used as a factor, because the trainer rejects a loss that is not in its options
    const lossFactor = lossFactors[this.#lossName] ?? Number.NaN;
    const [losses, weights] = tape.scope(() => {
      const made = this.#forward(tape, { batch, lossFactor });
      return [made.losses, made.weights] as const;
    });
    this.#losses.set(microBatch, { losses, weights });
  }

  #endBackward(microBatch: number): void {
    this.#tapes.get(microBatch)?.dispose();
    this.#tapes.delete(microBatch);
  }

  #releaseLosses(microBatch: number): void {
    const held = this.#losses.get(microBatch);
    held?.losses.release();
    held?.weights.release();
    this.#losses.delete(microBatch);
  }
}
