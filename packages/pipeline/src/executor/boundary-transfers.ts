import type { ProcessGroup, Work } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { type Device, type DType, Tensor } from '@mtl/kernels';
import { formatKey, type Transfer } from '../simulator/plan-messages.js';

interface BoundaryTransfersOptions {
  /** See PipelineOptions. */
  readonly group?: ProcessGroup | undefined;
  readonly replicas?: ProcessGroup | undefined;
  readonly dtype: DType;
  readonly device: Device;
  /** Returns the shape of the given micro-batch's boundary tensors. */
  readonly findShape: (microBatch: number) => readonly number[];
  /** The receives, in the order of posting. */
  readonly receives: readonly Transfer[];
}

/** A boundary tensor that this rank is receiving. */
interface Incoming {
  readonly tensor: Tensor;
  /** The section of the tensor that this replica receives; undefined if it receives the complete tensor. */
  readonly part: Tensor | undefined;
  readonly work: Work;
}

/**
 * The boundary tensors of a step. Receives are posted in advance. The end of the step waits for sends.
 * Tensors between two chunks of this rank are passed on without a copy.
 */
export class BoundaryTransfers {
  readonly #options: BoundaryTransfersOptions;
  readonly #replicas: ProcessGroup | undefined;
  readonly #here = new Map<string, Tensor>();
  readonly #incoming = new Map<string, Incoming>();
  #numPosted = 0;
  #sends: Work[] = [];

  constructor(options: BoundaryTransfersOptions) {
    this.#options = options;
    this.#replicas =
      options.replicas === undefined || options.replicas.size === 1 ? undefined : options.replicas;
  }

  /** Posts receives until `numReceives` have been posted in this step. */
  post(numReceives: number): void {
    const { receives, group, findShape, dtype, device } = this.#options;
    for (; this.#numPosted < numReceives; this.#numPosted++) {
      const transfer = receives[this.#numPosted]!;
      const tensor = Tensor.empty({ shape: findShape(transfer.microBatch), dtype, device });
      const part = this.#viewPart(tensor);
      const work = group!.receive(part ?? tensor, { from: transfer.peer! });
      this.#incoming.set(formatKey(transfer), { tensor, part, work });
    }
  }

  /**
   * Waits for the boundary tensor of `transfer` and returns it. Before this call, the receive must have been
   * posted, or a chunk on this rank must have made the tensor. The caller disposes of it.
   */
  take(transfer: Transfer): Tensor {
    const key = formatKey(transfer);
    if (transfer.peer === undefined) {
      const tensor = this.#here.get(key)!;
      this.#here.delete(key);
      return tensor;
    }
    const { tensor, part, work } = this.#incoming.get(key)!;
    work.wait();
    if (part !== undefined) {
      // all replicas run this all-gather at the same position in their order of collectives, so the group can
      // also serve the replicas' other operations
      this.#replicas!.allGather({ output: tensor, input: part }).wait();
      part.dispose();
    }
    this.#incoming.delete(key);
    return tensor;
  }

  /**
   * Starts to send the given boundary tensor, or keeps it if the receiving chunk is on this rank. Takes
   * ownership of the tensor.
   */
  give(transfer: Transfer, tensor: Tensor): void {
    this.#check(transfer, tensor);
    if (transfer.peer === undefined) {
      this.#here.set(formatKey(transfer), tensor);
      return;
    }
    const part = this.#viewPart(tensor);
    this.#sends.push(this.#options.group!.send(part ?? tensor, { to: transfer.peer }));
    // the operation keeps the memory until it is complete, so this view can be disposed of
    part?.dispose();
    tensor.dispose();
    this.#sends = this.#sends.filter((work) => !isReaped(work));
  }

  /** Waits until all sends are complete. */
  finish(): void {
    for (const work of this.#sends) work.wait();
    this.#sends = [];
  }

  /** Releases all tensors after an error. */
  abandon(): void {
    for (const tensor of this.#here.values()) tensor.dispose();
    for (const { tensor, part } of this.#incoming.values()) {
      part?.dispose();
      tensor.dispose();
    }
    this.#here.clear();
    this.#incoming.clear();
    this.#sends = [];
  }

  /**
   * Returns this replica's section of `tensor`, which is 1/t of the elements for t replicas; undefined
   * without replicas.
   */
  #viewPart(tensor: Tensor): Tensor | undefined {
    if (this.#replicas === undefined) return undefined;
    const size = tensor.size / this.#replicas.size;
    return tensor.view({ offset: this.#replicas.rank * size, shape: [size] });
  }

  #check({ what, chunk, microBatch }: Transfer, tensor: Tensor): void {
    const { dtype, findShape } = this.#options;
    const shape = findShape(microBatch);
    if (tensor.dtype === dtype && `${tensor.shape}` === `${shape}`) return;
    tensor.dispose();
    const made = what === 'forward' ? 'forward result' : 'gradient';
    throw new UsageError(
      'MTL_STAGE',
      `chunk ${chunk}, micro-batch ${microBatch}: its ${made} is ${tensor.dtype} [${tensor.shape.join(', ')}]`,
      { expected: `${dtype} [${shape.join(', ')}], as boundaryShape says` },
    );
  }
}

/** Returns true if `work` is complete. Throws its error if it has failed. */
function isReaped(work: Work): boolean {
  if (!work.isDone) return false;
  work.wait();
  return true;
}
