import type { Tensor } from '@mtl/kernels';

/** A router's expert assignment in a training forward pass. The router keeps the ownership of the tensors. */
interface ObservedChoice {
  /** The name of the router. */
  readonly router: string;
  /** int32 [T, k]: the chosen experts for each row that this process routes. */
  readonly experts: Tensor;
  /** float32 [T, E] */
  readonly logits: Tensor;
  /** int64 [B]: the global sample indices. Row t belongs to sample `t % B`. */
  readonly samples: Tensor;
  /**
   * The indices in [S, B] of the rows that this rank shares with its tensor-parallel ranks. Undefined means
   * all rows.
   */
  readonly indices: Int32Array | undefined;
}

/** The properties of an `ObservedChoice` that the router itself provides. */
export type Choice = Omit<ObservedChoice, 'samples' | 'indices'>;

export type RoutingObserver = (choice: ObservedChoice) => void;

/**
 * The state of a stage's routers for one micro-batch: a flag for counting loads, and the experts chosen in
 * the forward pass, which layers use again when they are recomputed.
 */
export class RoutingOfMicroBatch {
  readonly #isTraining: boolean;
  readonly #observe: (choice: Choice) => void;
  readonly #kept = new Map<string, Tensor>();
  #isForward = true;

  constructor({
    training,
    observe = () => {},
  }: {
    readonly training: boolean;
    /** Called with each expert assignment in a training forward pass. By default, nothing is called. */
    readonly observe?: ((choice: Choice) => void) | undefined;
  }) {
    this.#isTraining = training;
    this.#observe = observe;
  }

  /**
   * True if routed rows count in the experts' loads. This holds only in the forward pass of training, because
   * recomputation must not count rows twice.
   */
  get countsLoads(): boolean {
    return this.#isTraining && this.#isForward;
  }

  /** Keeps a router's expert assignment for recomputation. The caller keeps the ownership of `choice`. */
  keep(choice: Choice): void {
    if (!this.countsLoads) return;
    const { router, experts } = choice;
    this.#kept.get(router)?.dispose();
    this.#kept.set(router, experts.view({ shape: experts.shape }));
    this.#observe(choice);
  }

  /** Returns the experts that `router` chose in the forward pass, or undefined during the forward pass. */
  chosen(router: string): Tensor | undefined {
    return this.#isForward ? undefined : this.#kept.get(router);
  }

  endForward(): void {
    this.#isForward = false;
  }

  release(): void {
    for (const experts of this.#kept.values()) experts.dispose();
    this.#kept.clear();
  }
}
