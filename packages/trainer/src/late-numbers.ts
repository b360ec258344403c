import { type Device, DeviceMark, type PendingRead } from '@mtl/kernels';

export interface LateNumbersOptions {
  readonly device: Device;
  /** When the host began with the step, by `performance.now()`. */
  readonly startMs: number;
  /** Those of the step before, where the device may still be working on it. */
  readonly earlier: LateNumbers | undefined;
}

/**
 * Numbers of a step that the host reads while the device works on the next one, and how long the step took:
 * from the end of the step before to its own end, by the clock of the device. The host learns of both ends
 * late, at moments that say nothing about the step.
 */
export class LateNumbers {
  /** Of a step that begins when the device has nothing to do: what the host did before, and a mark. */
  readonly #begin: { readonly hostMs: number; readonly mark: DeviceMark } | undefined;
  #earlier: LateNumbers | undefined;
  #reads: readonly PendingRead<'float64'>[] = [];
  /** This step, and the next one, for which the end of this one is the beginning. */
  #numHolders = 1;
  #isDisposed = false;

  /** Before anything of the step is enqueued. */
  constructor({ device, startMs, earlier }: LateNumbersOptions) {
    this.#earlier = earlier;
    if (earlier === undefined) {
      this.#begin = { mark: new DeviceMark(device), hostMs: performance.now() - startMs };
    } else {
      earlier.#numHolders += 1;
    }
  }

  /** @param reads of the step, when all of it is enqueued; owned from here on */
  end(reads: readonly PendingRead<'float64'>[]): void {
    this.#reads = reads;
  }

  /** Waits for this step, not for the next one. Throws errors of `PendingRead.read`. */
  read(): readonly number[] {
    return this.#reads.flatMap((read) => [...read.read()]);
  }

  /** Of the step; waits for it. */
  milliseconds(): number {
    const end = this.#reads.at(-1)!;
    if (this.#begin === undefined) return end.millisecondsSince(this.#earlier!.#reads.at(-1)!);
    return this.#begin.hostMs + end.millisecondsSince(this.#begin.mark);
  }

  /** Waits for the step. A second call does nothing. */
  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#begin?.mark.dispose();
    if (this.#earlier !== undefined) this.#earlier.#release();
    this.#earlier = undefined;
    this.#release();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #release(): void {
    this.#numHolders -= 1;
    if (this.#numHolders > 0) return;
    for (const read of this.#reads) read.dispose();
  }
}
