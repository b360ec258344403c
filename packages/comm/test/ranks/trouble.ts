import type { World } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';

/**
 * The fault of the last rank (of the first one for `noGroup`); the other ranks work correctly and report the
 * errors that they see.
 */
export interface Trouble {
  readonly kind:
    | 'none'
    | 'hang'
    | 'loop'
    | 'exit'
    | 'throw'
    | 'throwCoded'
    | 'leave'
    | 'otherOperation'
    | 'otherSize'
    | 'otherMessage'
    | 'otherParts'
    | 'noGroup'
    | 'silentSender';
}

const say = (line: object): boolean => process.stdout.write(`${JSON.stringify(line)}\n`);

export default function trouble(world: World, { kind }: Trouble): string {
  const { group, rank, size } = world;
  const tensor = Tensor.zeros({ shape: [8], dtype: 'float32' });
  const isCulprit = rank === (kind === 'noGroup' ? 0 : size - 1);
  group.allReduce(tensor).wait();
  say({ ready: rank });
  if (isCulprit && kind !== 'none') misbehave(world, kind);
  else if (kind === 'otherMessage' || kind === 'silentSender') receiveOrReduce(world);
  else if (kind === 'otherParts') exchangeParts(world, { toFirst: 2 });
  else if (kind === 'noGroup') world.createGroup({ name: 'extra', ranks: group.ranks });
  // repeats until a failure ends the wait: longer than the time-out of any test
  for (let index = 0; index < 1_000_000; index++) group.allReduce(tensor).wait();
  return 'done';
}

/** Makes rank 0 wait for a message of the culprit, and the ranks in between for a message of rank 0. */
function receiveOrReduce({ group, rank, size }: World): void {
  const tensor = Tensor.zeros({ shape: [8], dtype: 'float32' });
  if (rank === 0) group.receive(tensor, { from: size - 1 }).wait();
  else group.allReduce(tensor).wait();
}

/** Starts an all-to-all of two elements for each rank, and of `toFirst` for rank 0. */
function exchangeParts({ group, rank, size }: World, { toFirst }: { readonly toFirst: number }): void {
  const inputSplits = group.ranks.map((_, member) => (member === 0 ? toFirst : 2));
  const outputSplits = group.ranks.map((_, member) => (member === 0 && rank === 0 ? toFirst : 2));
  const input = Tensor.zeros({ shape: [2 * (size - 1) + toFirst], dtype: 'float32' });
  const output = Tensor.zeros({ shape: [2 * size], dtype: 'float32' });
  group.allToAll({ output, input, inputSplits, outputSplits }).wait();
}

function misbehave(world: World, kind: Trouble['kind']): void {
  const { group } = world;
  const nothing = new Int32Array(new SharedArrayBuffer(4));
  const short = Tensor.zeros({ shape: [7], dtype: 'float32' });
  switch (kind) {
    case 'hang':
    case 'noGroup':
    case 'silentSender':
      Atomics.wait(nothing, 0, 0);
      break;
    case 'loop':
      for (;;) nothing[0] = 0;
    case 'exit':
      process.exit(7);
      break;
    case 'throw':
      throw new Error('a bug in the program');
    case 'throwCoded':
      throw new UsageError('MTL_EXAMPLE', 'a mistake of the user');
    case 'leave':
      world.close();
      process.exit(0);
      break;
    case 'otherOperation':
      group.barrier().wait();
      break;
    case 'otherSize':
      group.allReduce(short).wait();
      break;
    case 'otherParts':
      exchangeParts(world, { toFirst: 3 });
      break;
    case 'otherMessage':
      group.send(short, { to: 0 }).wait();
      group.barrier().wait();
      break;
    default:
      group.barrier().wait();
  }
}
