import { type Device, memoryStatistics } from '@mtl/kernels';
import type { ModelOptimizer } from '@mtl/optimizer';
import type { RecordedActivity } from '@mtl/pipeline/schedules';

/** Bytes of a rank at its peak, by what they are for; together the peak of the allocator. */
export interface MemoryByKind {
  /** Parameters as the model computes with them. */
  readonly parameters: number;
  /** float32 main gradients. */
  readonly gradients: number;
  /**
   * Master weights, where they are not the parameters themselves, what the optimizer keeps, and by how much
   * the allocator rounds all of these up.
   */
  readonly optimizer: number;
  /** What was kept when the pass at the peak began, of all micro-batches in flight. */
  readonly activations: number;
  /** What that pass added; all of what is not kept, where the peak is in no pass. */
  readonly temporary: number;
}

const passes: ReadonlySet<RecordedActivity['kind']> = new Set(['F', 'B', 'I', 'W']);

/** Finds what the memory at the peak is for. */
export class PeakMemory {
  readonly #device: Device;
  /** Bytes in use before the model was built. */
  readonly #before: number;
  #states: { readonly all: number; readonly parameters: number; readonly gradients: number } | undefined;
  /** Bytes in use when the pass with the highest peak began. */
  #atPass = 0;
  #peakOfPasses = 0;

  /** Everything in use now is not counted. */
  constructor(device: Device) {
    this.#device = device;
    this.#before = memoryStatistics(device).bytesInUse;
  }

  /** Now all that outlives a step exists. */
  setStates({ stores }: ModelOptimizer): void {
    const { bytesInUse } = memoryStatistics(this.#device);
    const [parameters, gradients] = (['parameters', 'gradients'] as const).map((kind) =>
      stores.reduce((sum, { bytes }) => sum + bytes[kind], 0),
    ) as [number, number];
    this.#states = { all: bytesInUse, parameters, gradients };
  }

  span<Result>({ kind }: Pick<RecordedActivity, 'kind'>, body: () => Result): Result {
    if (!passes.has(kind)) return body();
    const { bytesInUse, peakBytes } = memoryStatistics(this.#device);
    const result = body();
    const { peakBytes: peak } = memoryStatistics(this.#device);
    if (peak > peakBytes) [this.#atPass, this.#peakOfPasses] = [bytesInUse, peak];
    return result;
  }

  /** Of the peak since the model was built. */
  byKind(): MemoryByKind {
    const { peakBytes } = memoryStatistics(this.#device);
    const { all, parameters, gradients } = this.#states!;
    const kept = this.#peakOfPasses === peakBytes ? this.#atPass : all;
    return {
      parameters,
      gradients,
      optimizer: all - this.#before - parameters - gradients,
      activations: kept - all,
      temporary: peakBytes - kept,
    };
  }
}
