import { MtlError } from '@mtl/errors';
import type { DeviceGraph, GraphMemory } from '@mtl/kernels';

/** Codes of recording errors. After such an error, a pass launches its operations one by one. */
const refusals: readonly string[] = ['MTL_CAPTURE', 'MTL_OUT_OF_MEMORY'];

/**
 * Passes are recorded for at most this many micro-batch shapes, because each micro-batch in flight has its
 * own graphs for every recorded shape.
 */
const maximumShapes = 16;
const maximumSeen = 1024;

/** The options that `GraphedStageOptions` shares with the rules. */
interface RecordingRulesOptions {
  readonly onMessage: (text: string) => void;
  readonly onRefusal: (text: string) => void;
}

/**
 * Decides which forward and backward passes of a stage are recorded. A pass is recorded if its shape has run
 * before, so that libraries have chosen their algorithms. After the device has refused to record a pass, no
 * further pass is recorded. This class reports once that passes are launched as graphs, and once for each
 * reason that prevents this.
 */
export class RecordingRules {
  readonly #options: RecordingRulesOptions;
  readonly #seen = new Set<string>();
  readonly #recorded = new Set<string>();
  readonly #said = new Set<string>();
  #isOver = false;

  constructor(options: RecordingRulesOptions) {
    this.#options = options;
  }

  /**
   * True as soon as the device has refused to record a pass. No further passes are then recorded, but passes
   * that are already recorded stay.
   */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * Returns true if passes with the given shapes are to be recorded. Called once for each micro-batch without
   * graphs.
   */
  isToBeRecorded(shapes: string): boolean {
    if (this.#isOver) return false;
    if (!this.#seen.has(shapes)) {
      // a length may never occur again, so the set of remembered shapes is limited
      if (this.#seen.size < maximumSeen) this.#seen.add(shapes);
      return false;
    }
    if (this.#recorded.has(shapes)) return true;
    if (this.#recorded.size < maximumShapes) return true;
    this.#refuse(
      `CUDA graphs: micro-batches have more than ${maximumShapes} shapes; passes of other shapes are launched one by one`,
    );
    return false;
  }

  /** Notes that passes with the given shapes are launched as graphs from now on. */
  recorded(shapes: string): void {
    this.#recorded.add(shapes);
    this.#sayOnce('CUDA graphs: passes over micro-batches are launched as graphs from here on', {
      to: this.#options.onMessage,
    });
  }

  /**
   * Records the graph of `body`. Returns undefined if the device refuses to record the graph or lacks the
   * memory. The refusal is reported once, and no further graph is recorded. The device may still have enough
   * memory to run the operations, which then need no graph memory.
   */
  record(memory: GraphMemory, body: () => void): DeviceGraph | undefined {
    try {
      return memory.capture(body);
    } catch (error) {
      if (!MtlError.isInstance(error) || !refusals.includes(error.code)) throw error;
      this.#isOver = true;
      const others = this.#recorded.size > 0 ? 'no others are recorded, their' : 'not used,';
      this.#refuse(`CUDA graphs: ${others} operations are launched one by one: ${error.message}`);
      return undefined;
    }
  }

  #refuse(text: string): void {
    this.#sayOnce(text, { to: this.#options.onRefusal });
  }

  #sayOnce(text: string, { to }: { readonly to: (text: string) => void }): void {
    if (this.#said.has(text)) return;
    this.#said.add(text);
    to(text);
  }
}
