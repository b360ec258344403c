import { hostname } from 'node:os';
import type { ProcessGroup } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';

/** Longest name that is gathered: what Linux allows (HOST_NAME_MAX). */
const mostBytes = 64;

/** The names of the hosts of all members of a group, by rank. All of them call it. */
export function hostNames(group: ProcessGroup | undefined, name = hostname()): readonly string[] {
  if (group === undefined) return [name];
  const bytes = new Uint8Array(mostBytes);
  new TextEncoder().encodeInto(name, bytes);
  using input = Tensor.from(bytes, { shape: [mostBytes], dtype: 'uint8' });
  using output = Tensor.zeros({ shape: [mostBytes * group.size], dtype: 'uint8', device: 'cpu' });
  group.allGather({ output, input }).wait();
  const all = output.read<'uint8'>();
  return Array.from({ length: group.size }, (_, rank) => {
    const padded = all.subarray(rank * mostBytes, (rank + 1) * mostBytes);
    const end = padded.indexOf(0);
    return new TextDecoder().decode(padded.subarray(0, end < 0 ? mostBytes : end));
  });
}
