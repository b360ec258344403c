import type { Tensor } from '@mtl/kernels';
import type {
  AllToAllOptions,
  CommunicationOperation,
  EngineName,
  OperationCount,
  ProcessGroup,
  ReduceOperation,
  Work,
} from '../process-group.js';

/**
 * The same ranks twice: over an engine of GPUs for tensors on device cuda, and over one of the host for all
 * others.
 */
export class DeviceAndHostGroup implements ProcessGroup {
  readonly #device: ProcessGroup;
  readonly #host: ProcessGroup;

  constructor({ device, host }: { readonly device: ProcessGroup; readonly host: ProcessGroup }) {
    this.#device = device;
    this.#host = host;
  }

  get name(): string {
    return this.#device.name;
  }

  get engine(): EngineName {
    return this.#device.engine;
  }

  get ranks(): readonly number[] {
    return this.#device.ranks;
  }

  get rank(): number {
    return this.#device.rank;
  }

  get size(): number {
    return this.#device.size;
  }

  allReduce(tensor: Tensor, options?: { readonly operation?: ReduceOperation }): Work {
    return this.#groupOf(tensor).allReduce(tensor, options);
  }

  allGather(tensors: { readonly output: Tensor; readonly input: Tensor }): Work {
    return this.#groupOf(tensors.output).allGather(tensors);
  }

  reduceScatter(tensors: {
    readonly output: Tensor;
    readonly input: Tensor;
    readonly operation?: ReduceOperation;
  }): Work {
    return this.#groupOf(tensors.output).reduceScatter(tensors);
  }

  broadcast(tensor: Tensor, options: { readonly root: number }): Work {
    return this.#groupOf(tensor).broadcast(tensor, options);
  }

  allToAll(tensors: AllToAllOptions): Work {
    return this.#groupOf(tensors.output).allToAll(tensors);
  }

  send(tensor: Tensor, options: { readonly to: number }): Work {
    return this.#groupOf(tensor).send(tensor, options);
  }

  receive(tensor: Tensor, options: { readonly from: number }): Work {
    return this.#groupOf(tensor).receive(tensor, options);
  }

  /** Over the host: what members have started, not what their GPUs have done. */
  barrier(): Work {
    return this.#host.barrier();
  }

  statistics(): Readonly<Record<CommunicationOperation, OperationCount>> {
    const [device, host] = [this.#device.statistics(), this.#host.statistics()];
    const names = Object.keys(device) as CommunicationOperation[];
    return Object.fromEntries(names.map((name) => [name, sumOf(device[name], host[name])])) as ReturnType<
      ProcessGroup['statistics']
    >;
  }

  close(): void {
    try {
      this.#device.close();
    } finally {
      this.#host.close();
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #groupOf(tensor: Tensor): ProcessGroup {
    return tensor.device === 'cuda' ? this.#device : this.#host;
  }
}

function sumOf(one: OperationCount, other: OperationCount): OperationCount {
  return {
    calls: one.calls + other.calls,
    sentBytes: one.sentBytes + other.sentBytes,
    waitedSeconds: one.waitedSeconds + other.waitedSeconds,
  };
}
