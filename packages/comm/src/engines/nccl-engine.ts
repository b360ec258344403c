import { MtlError } from '@mtl/errors';
import type { Tensor } from '@mtl/kernels';
import { DeviceWaits } from '../device-waits.js';
import { addon, callNative } from '../native/addon.js';
import { NativeGroup } from '../native/native-group.js';
import type {
  AllToAllOptions,
  CommunicationOperation,
  EngineName,
  OperationCount,
  ProcessGroup,
  ReduceOperation,
  Work,
} from '../process-group.js';
import type { Engine, EngineContext } from './engine.js';

interface NcclEngineContext extends EngineContext {
  /** The engine for tensors in host memory. */
  readonly host: Engine;
  /** True if several ranks share a GPU. NCCL requires that such ranks pretend to be on separate hosts. */
  readonly sharesGpu: boolean;
}

/** Returns the engine `nccl`: NCCL for tensors on device cuda, and a host engine for all other tensors. */
export function ncclEngine(context: NcclEngineContext): Engine {
  const { job, store, timeoutMs, host, sharesGpu } = context;
  const numCreated = new Map<string, number>();
  const groups: ProcessGroup[] = [];
  const deviceWaits = new DeviceWaits('cuda');
  return {
    name: 'nccl',
    deviceWaits,
    createGroup: ({ name, ranks }) => {
      // the count is equal on all members, because they create their common groups in the same order
      const label = `nccl/${name} ${ranks.join(' ')}`;
      const number = numCreated.get(label) ?? 0;
      numCreated.set(label, number + 1);
      const { group, engine } = callNative(() =>
        addon().createNcclGroup(job.handle, {
          storeClient: store.handle,
          name,
          ranks,
          key: `${label}/${number}`,
          timeoutMs,
          sharesGpu,
        }),
      );
      const device = new NativeGroup({
        name,
        ranks,
        engine,
        worldRank: job.rank,
        handle: group,
        deviceWaits,
      });
      const both = new DeviceAndHostGroup({ device, host: host.createGroup({ name, ranks }) });
      groups.push(both);
      return both;
    },
    // groups are closed here, because the store can still receive the message that this rank leaves cleanly
    close: () => {
      for (const group of groups) group.close();
      host.close();
    },
  };
}

/** A group with two engines: one for tensors on device cuda, and a host engine for all other tensors. */
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
    return this.#chooseGroup(tensor).allReduce(tensor, options);
  }

  allGather(tensors: { readonly output: Tensor; readonly input: Tensor }): Work {
    return this.#chooseGroup(tensors.output).allGather(tensors);
  }

  reduceScatter(tensors: {
    readonly output: Tensor;
    readonly input: Tensor;
    readonly operation?: ReduceOperation;
  }): Work {
    return this.#chooseGroup(tensors.output).reduceScatter(tensors);
  }

  broadcast(tensor: Tensor, options: { readonly root: number }): Work {
    return this.#chooseGroup(tensor).broadcast(tensor, options);
  }

  allToAll(tensors: AllToAllOptions): Work {
    return this.#chooseGroup(tensors.output).allToAll(tensors);
  }

  send(tensor: Tensor, options: { readonly to: number }): Work {
    return this.#chooseGroup(tensor).send(tensor, options);
  }

  receive(tensor: Tensor, options: { readonly from: number }): Work {
    return this.#chooseGroup(tensor).receive(tensor, options);
  }

  /**
   * Waits on the host. Afterwards, all members have started their operations, but their GPUs may not have
   * finished them.
   */
  barrier(): Work {
    return this.#host.barrier();
  }

  statistics(): Readonly<Record<CommunicationOperation, OperationCount>> {
    const [device, host] = [this.#device.statistics(), this.#host.statistics()];
    const names = Object.keys(device) as CommunicationOperation[];
    return Object.fromEntries(names.map((name) => [name, addCounts(device[name], host[name])])) as ReturnType<
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

  #chooseGroup(tensor: Tensor): ProcessGroup {
    return tensor.device === 'cuda' ? this.#device : this.#host;
  }
}

function addCounts(one: OperationCount, other: OperationCount): OperationCount {
  return {
    calls: one.calls + other.calls,
    sentBytes: one.sentBytes + other.sentBytes,
    waitedSeconds: one.waitedSeconds + other.waitedSeconds,
  };
}

/** The installed version of NCCL, NVIDIA's library for collectives. */
export interface NcclInformation {
  /** The version of the library, for example `2.30.7`. */
  readonly version: string;
  readonly path: string;
  /** The path of the driver's `libcuda.so.1`. */
  readonly driverPath: string;
  /** The version of the header that the engine was compiled with. */
  readonly builtAgainst: string;
}

/**
 * Finds and opens NCCL and the driver's library. Both stay open until the process ends.
 *
 * @throws CommunicationError MTL_NCCL_NOT_BUILT if the build lacks the engine; MTL_NCCL_NOT_FOUND, which
 *   lists every path that was tried; MTL_NCCL_VERSION for a version that is too old; MTL_CUDA if the driver
 *   returns an error
 */
export function ncclInformation(): NcclInformation {
  return callNative(() => addon().ncclInformation());
}

/** Returns the reason why NCCL cannot be used on this machine; undefined if it can be used. */
export function ncclProblem(): string | undefined {
  try {
    ncclInformation();
    return undefined;
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    return error.message;
  }
}

/**
 * The number of channels that an NCCL communicator uses for messages between two ranks; equal to
 * `kMessageBlocks` in service.cc.
 */
export const ncclMessageChannels = 8;
