import type { Profile } from '../profiles/profile.js';
import { noSeconds, operationsSeconds, type PassSeconds } from '../timing/operations-seconds.js';
import type { ChunkOperations, RepeatedOperations } from './chunk-operations.js';

/** Seconds of the passes of one micro-batch on a chunk of the model, by what they are spent on. */
export interface ChunkPasses {
  readonly forward: PassSeconds;
  readonly backward: PassSeconds;
}

/** Of every chunk. Operations that several chunks share are timed once. */
export function chunkPasses(chunks: readonly ChunkOperations[], profile: Profile): ChunkPasses[] {
  const known = new Map<RepeatedOperations, ChunkPasses>();
  const passesOf = (operations: RepeatedOperations): ChunkPasses => {
    const passes = known.get(operations) ?? {
      forward: operationsSeconds(operations.forward, profile),
      backward: operationsSeconds(operations.backward, profile),
    };
    known.set(operations, passes);
    return passes;
  };
  return chunks.map((parts) => ({
    forward: sum(parts.map((part) => [passesOf(part).forward, part.times])),
    backward: sum(parts.map((part) => [passesOf(part).backward, part.times])),
  }));
}

function sum(parts: readonly (readonly [PassSeconds, number])[]): PassSeconds {
  const total = noSeconds();
  for (const [seconds, times] of parts) {
    for (const key of Object.keys(total) as (keyof PassSeconds)[]) total[key] += seconds[key] * times;
  }
  return total;
}
