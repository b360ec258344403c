import type { ProcessGroup, ReduceOperation, Work, World } from '@mtl/comm';
import { cast, Tensor } from '@mtl/kernels';
import { CallbackWork } from '../../src/awaitable-work.js';
import collectives, { type CollectiveCases } from './collectives.js';

export interface HierarchicalCases extends CollectiveCases {
  /** The host of each rank, as a number. */
  readonly hosts: readonly number[];
}

const done: Work = new CallbackWork();

/**
 * Computes the cases of collectives.ts in the documented order of summation: within every host by rank, then
 * over hosts by the rank of their first member; 16-bit floats stay in float32 until the end.
 */
export default function hierarchicalReference(world: World, { hosts, ...cases }: HierarchicalCases): unknown {
  const ranks = hosts.map((_, rank) => rank);
  const listRanks = (host: number): number[] => ranks.filter((rank) => hosts[rank] === host);
  const own = listRanks(hosts[world.rank]!);
  const leaders = [...new Set(hosts)].map((host) => listRanks(host)[0]!);
  const isEven = leaders.every((leader) => listRanks(hosts[leader]!).length === own.length);
  const inHost = world.createGroup({ name: 'host', ranks: own });
  const between = leaders.includes(world.rank)
    ? world.createGroup({ name: 'leaders', ranks: leaders })
    : undefined;
  const all = world.group;

  const allReduce = (tensor: Tensor, operation: ReduceOperation): void => {
    const isWidened = operation === 'sum' && (tensor.dtype === 'bfloat16' || tensor.dtype === 'float16');
    const wide = Tensor.empty({ shape: tensor.shape, dtype: isWidened ? 'float32' : tensor.dtype });
    if (isWidened) cast({ output: wide, input: tensor });
    else wide.write(tensor.read());
    inHost.allReduce(wide, { operation }).wait();
    between?.allReduce(wide, { operation }).wait();
    inHost.broadcast(wide, { root: 0 }).wait();
    if (isWidened) cast({ output: tensor, input: wide });
    else tensor.write(wide.read());
    wide.dispose();
  };
  const group: Partial<ProcessGroup> = {
    allReduce: (tensor, { operation = 'sum' } = {}) => {
      allReduce(tensor, operation);
      return done;
    },
    reduceScatter: ({ output, input, operation = 'sum' }) => {
      if (!isEven) return all.reduceScatter({ output, input, operation });
      const whole = Tensor.from(input.read(), { shape: input.shape, dtype: input.dtype });
      allReduce(whole, operation);
      const part = whole.view({ offset: all.rank * output.size, shape: output.shape });
      output.write(part.read());
      part.dispose();
      whole.dispose();
      return done;
    },
  };
  const composed = new Proxy(all, {
    get: (target, property) => {
      if (property in group) return group[property as keyof ProcessGroup];
      const value = Reflect.get(target, property, target) as unknown;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return collectives({ ...world, rank: world.rank, size: world.size, group: composed } as World, cases);
}
