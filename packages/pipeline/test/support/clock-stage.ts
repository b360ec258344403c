import { Tensor } from '@mtl/kernels';
import type { RecordedSpan, Stage, StageForward, StageLoss } from '../../src/index.js';
import type { PassKind } from '../../src/schedules.js';

/** The durations of a chunk's passes, in units of time; B takes the time of I and W together. */
export interface PassUnits {
  readonly forward: number;
  readonly backwardInput: number;
  readonly backwardWeight: number;
}

/**
 * The simulated clock of a rank, and its passes. Only passes advance the clock. The rank's stages share it.
 */
export class RankClock {
  now = 0;
  readonly spans: RecordedSpan[] = [];
}

export interface ClockStageOptions {
  readonly chunk: number;
  readonly numChunks: number;
  readonly clock: RankClock;
  readonly units: PassUnits;
}

/**
 * A stage that simulates only times: boundary tensors contain the time at which they were made, and a pass
 * starts when its rank is free and its input exists. It does not use a real clock, so the times are
 * deterministic.
 */
export class ClockStage implements Stage<undefined> {
  readonly isFirst: boolean;
  readonly isLast: boolean;
  readonly #options: ClockStageOptions;

  constructor(options: ClockStageOptions) {
    this.#options = options;
    this.isFirst = options.chunk === 0;
    this.isLast = options.chunk === options.numChunks - 1;
  }

  boundaryShape(): readonly number[] {
    return [1];
  }

  forward({ microBatch, input }: StageForward<undefined>): Tensor | undefined {
    const end = this.#pass('F', { microBatch, input, takes: this.#options.units.forward });
    return this.isLast ? undefined : timeTensor(end);
  }

  backwardInput(call: {
    readonly microBatch: number;
    readonly outputGradient?: Tensor | undefined;
    readonly weights?: boolean;
  }): Tensor | undefined {
    const { microBatch, outputGradient: input, weights } = call;
    const { backwardInput, backwardWeight } = this.#options.units;
    const end =
      weights === true
        ? this.#pass('B', { microBatch, input, takes: backwardInput + backwardWeight })
        : this.#pass('I', { microBatch, input, takes: backwardInput });
    return this.isFirst ? undefined : timeTensor(end);
  }

  backwardWeight({ microBatch }: { readonly microBatch: number }): void {
    this.#pass('W', { microBatch, takes: this.#options.units.backwardWeight });
  }

  takeLosses(): readonly StageLoss[] {
    return [];
  }

  evaluate(call: StageForward<undefined>): Tensor | undefined {
    return this.forward(call);
  }

  abandon(): void {}

  #pass(
    kind: PassKind,
    pass: { readonly microBatch: number; readonly input?: Tensor | undefined; readonly takes: number },
  ): number {
    const { clock, chunk } = this.#options;
    const { microBatch, input, takes } = pass;
    const startNs = Math.max(clock.now, input?.item() ?? 0);
    const endNs = startNs + takes;
    clock.spans.push({ kind, chunk, microBatch, startNs, endNs });
    clock.now = endNs;
    return endNs;
  }
}

function timeTensor(time: number): Tensor {
  return Tensor.from([time], { shape: [1], dtype: 'float64' });
}
