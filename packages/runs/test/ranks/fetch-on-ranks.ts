import { setTimeout as pause } from 'node:timers/promises';
import type { World } from '@mtl/comm';
import { fetchFromHub, type ModelPlaces } from '../../src/saved/hub/fetch-from-hub.js';

export interface FetchOnRanksArgument {
  readonly places: ModelPlaces;
}

export interface FetchOnRanksResult {
  readonly places: ModelPlaces;
  readonly messages: readonly string[];
}

/** Fetches models on each rank, which all share the environment of their process. */
export default async function fetchOnRanks(
  world: World,
  { places }: FetchOnRanksArgument,
): Promise<FetchOnRanksResult> {
  const messages: string[] = [];
  // rank 0 begins last
  if (world.rank === 0) await pause(100);
  const found = await fetchFromHub(places, {
    group: world.group,
    onMessage: (text) => void messages.push(text),
  });
  return { places: found, messages };
}
