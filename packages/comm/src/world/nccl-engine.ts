import { DeviceWaits } from '../device-waits.js';
import { addon, callNative } from '../native/addon.js';
import { NativeGroup } from '../native/native-group.js';
import { DeviceAndHostGroup } from '../nccl/device-and-host-group.js';
import type { ProcessGroup } from '../process-group.js';
import type { Engine, EngineContext } from './engine.js';

export interface NcclEngineContext extends EngineContext {
  /** For tensors of the host. */
  readonly host: Engine;
  /** Whether ranks share a GPU and must each claim to be on a host of its own. */
  readonly sharesGpu: boolean;
}

/** NCCL for tensors on device cuda, and an engine of the host for the others. */
export function ncclEngine(context: NcclEngineContext): Engine {
  const { job, store, timeoutMs, host, sharesGpu } = context;
  const numCreated = new Map<string, number>();
  const groups: ProcessGroup[] = [];
  const deviceWaits = new DeviceWaits('cuda');
  return {
    name: 'nccl',
    deviceWaits,
    createGroup: ({ name, ranks }) => {
      // all members count alike: they create what they share in one order
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
    // while the store still hears that this rank leaves in order
    close: () => {
      for (const group of groups) group.close();
      host.close();
    },
  };
}
