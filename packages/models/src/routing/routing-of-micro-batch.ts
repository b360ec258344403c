import type { Tensor } from '@mtl/kernels';

/** The choice of a router in a forward pass of training; the router still owns the tensors. */
interface ObservedChoice {
  /** The name of the router. */
  readonly router: string;
  /** int32 [T, k]: the experts of the rows that this process routes. */
  readonly experts: Tensor;
  /** float32 [T, E] */
  readonly logits: Tensor;
  /** int64 [B]: global numbers of the samples; row t is of sample t % B. */
  readonly samples: Tensor;
  /**
   * The indices in [S, B] of the rows that this rank owns together with its tensor-parallel ranks; undefined:
   * all rows.
   */
  readonly indices: Int32Array | undefined;
}

/** The part of a choice that the router knows. */
export type Choice = Omit<ObservedChoice, 'samples' | 'indices'>;

export type RoutingObserver = (choice: ObservedChoice) => void;

/**
 * The state that the routers of a stage keep of a micro-batch: whether loads count, and the experts that the
 * forward pass has chosen, which recomputed layers use again.
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
    /** Receives each choice of the forward pass. Default: none. */
    readonly observe?: ((choice: Choice) => void) | undefined;
  }) {
    this.#isTraining = training;
    this.#observe = observe;
  }

  /** Returns whether rows are counted as loads of experts: in the forward pass of training, each once. */
  get countsLoads(): boolean {
    return this.#isTraining && this.#isForward;
  }

  /** Keeps the choice of a router for its recomputation; the caller still owns the choice. */
  keep(choice: Choice): void {
    if (!this.countsLoads) return;
    const { router, experts } = choice;
    this.#kept.get(router)?.dispose();
    this.#kept.set(router, experts.view({ shape: experts.shape }));
    this.#observe(choice);
  }

  /** Returns the choice of a router in the forward pass; undefined in that pass itself. */
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
