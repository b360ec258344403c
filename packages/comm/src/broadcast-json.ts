import { Tensor } from '@mtl/kernels';
import type { ProcessGroup } from './process-group.js';

/**
 * Broadcasts the root's `value` to all members of `group`, as JSON. All members must call this function. The
 * value may contain NaN and infinite numbers. undefined is sent as null and returned as undefined.
 */
export function broadcastJson<Value>(
  group: ProcessGroup,
  value: Value,
  { root = 0 }: { readonly root?: number } = {},
): Value {
  const own = new TextEncoder().encode(JSON.stringify(value ?? null, withNonFinite));
  using length = Tensor.from([own.length], { shape: [1], dtype: 'int32' });
  group.broadcast(length, { root }).wait();
  // on engine meta, no other rank exists, so this rank's value is used as the root's value
  const isKnown = group.rank === root || group.engine === 'meta';
  const bytes = isKnown ? own : new Uint8Array(length.item());
  using tensor = Tensor.from(bytes, { shape: [bytes.length], dtype: 'uint8' });
  group.broadcast(tensor, { root }).wait();
  return (JSON.parse(new TextDecoder().decode(tensor.read<'uint8'>()), fromNonFinite) ?? undefined) as Value;
}

const nonFiniteKey = '$number';

/** Replaces NaN and infinite numbers by marked objects, because JSON would write them as null. */
function withNonFinite(_: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isFinite(value) ? { [nonFiniteKey]: String(value) } : value;
}

function fromNonFinite(_: string, value: unknown): unknown {
  const isMarked = typeof value === 'object' && value !== null && nonFiniteKey in value;
  return isMarked ? Number(value[nonFiniteKey]) : value;
}
