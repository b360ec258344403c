import { broadcastJson, type World } from '@mtl/comm';

/** Returns the values that this rank receives from the first and from the last rank. */
export default function broadcastValues(world: World): unknown[] {
  const own = { rank: world.rank, text: 'größe', numbers: [1.5, Number.NaN, Number.POSITIVE_INFINITY] };
  const last = world.size - 1;
  return [
    broadcastJson(world.group, own),
    broadcastJson(world.group, own, { root: last }),
    broadcastJson(world.group, world.rank === last ? undefined : own, { root: last }),
  ];
}
