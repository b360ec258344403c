import { linearCrossEntropy, Parameter, Tape, type Variable } from '@mtl/autograd';
import { Tensor } from '@mtl/kernels';
import { Pipeline, type Stage, type StageForward, type StageLoss } from '@mtl/pipeline';
import { oneStage } from '@mtl/pipeline/schedules';

/** Tokens and the successor of each token. */
export interface BigramBatch {
  readonly tokens: readonly number[];
  readonly labels: readonly number[];
}

/**
 * The smallest model that a trainer can train: a table of embeddings that is also the output head. The hidden
 * state of a token is its one-hot row times `boost`, so that tests can make gradients overflow.
 */
export class BigramStage implements Stage<BigramBatch> {
  readonly isFirst = true;
  readonly isLast = true;
  readonly head: Parameter;
  boost = 1;
  /** True if the last token of a micro-batch has a loss per sample, and the others a loss per token. */
  hasSampleLoss = false;
  abandoned = 0;
  readonly #size: number;
  readonly #flights = new Map<number, { tape: Tape; losses: Variable; weights: Variable }>();

  constructor(size: number) {
    this.#size = size;
    this.head = new Parameter({
      name: 'head',
      globalShape: [size, size],
      initialization: { kind: 'normal', standardDeviation: 0.1 },
    });
  }

  boundaryShape(): readonly number[] {
    return [];
  }

  forward(call: StageForward<BigramBatch>): undefined {
    this.#run(call, new Tape());
  }

  evaluate(call: StageForward<BigramBatch>): undefined {
    this.#run(call, new Tape({ recording: false }));
  }

  backwardInput({ microBatch }: { microBatch: number }): undefined {
    const { tape, losses } = this.#flights.get(microBatch)!;
    tape.backward(losses);
    tape.dispose();
  }

  backwardWeight(): void {
    throw new Error('this stage does both halves at once');
  }

  takeLosses(microBatch: number): readonly StageLoss[] {
    const { losses, weights } = this.#flights.get(microBatch)!;
    this.#flights.delete(microBatch);
    const { size } = losses.tensor;
    const parts = this.hasSampleLoss
      ? { token_loss: [0, size - 1], sample_loss: [size - 1, size] }
      : { lm_loss: [0, size] };
    const made = Object.entries(parts).map(([name, [start, end]]): StageLoss => {
      const range = { offset: start!, shape: [end! - start!] };
      const views = { losses: losses.tensor.view(range), weights: weights.tensor.view(range) };
      const dispose = (): void => {
        for (const view of Object.values(views)) view.dispose();
      };
      return { name, ...views, dispose };
    });
    // the views keep the memory
    losses.release();
    weights.release();
    return made;
  }

  abandon(): void {
    this.abandoned += 1;
  }

  #run(call: StageForward<BigramBatch>, tape: Tape): void {
    const { microBatch, batch, lossFactors } = call;
    const findFactor = (name: string): number => lossFactors[name] ?? Number.NaN;
    const { tokens } = batch;
    const rows = tokens.flatMap((token) =>
      Array.from({ length: this.#size }, (_, at) => (at === token ? this.boost : 0)),
    );
    const shape = [tokens.length, 1];
    const { dtype } = this.head.data;
    const input = tape.input(Tensor.from(rows, { shape: [...shape, this.#size], dtype }));
    const labels = tape.input(Tensor.from(batch.labels, { shape, dtype: 'int32' }));
    const weights = tape.input(
      Tensor.from(
        tokens.map((_, at) => {
          if (!this.hasSampleLoss) return findFactor('lm_loss');
          return findFactor(at === tokens.length - 1 ? 'sample_loss' : 'token_loss');
        }),
        { shape, dtype: 'float32' },
      ),
    );
    const losses = linearCrossEntropy(tape, {
      input,
      labels,
      weights,
      weight: this.head,
      vocabularySize: this.#size,
    });
    input.release();
    labels.release();
    this.#flights.set(microBatch, { tape, losses, weights });
  }
}

/** Returns a pipeline of one stage. */
export function onePiece<Batch>(stage: Stage<Batch>): Pipeline<Batch> {
  return new Pipeline({
    stages: new Map([[0, stage]]),
    schedule: oneStage,
    dtype: 'float32',
    device: 'cpu',
  });
}
