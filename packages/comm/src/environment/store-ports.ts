const numCandidates = 8;
/**
 * Below the ports that Linux hands out to connections (32768 and up), so that no connection takes one by
 * chance.
 */
const [lowest, highest] = [12_000, 32_000];

/** The ports after `masterPort`: under torchrun its agent listens on that one itself. */
export function portsAfter(masterPort: number): number[] {
  const ports = Array.from({ length: numCandidates }, (_, index) => masterPort + 1 + index);
  return ports.filter((port) => port <= 65_535);
}

/**
 * Ports that all processes of a job derive alike from what names the job, and that other jobs seldom share.
 */
export function portsOfJob(job: string): number[] {
  // FNV-1a
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(job)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  const numSlots = (highest - lowest) / numCandidates;
  const first = lowest + (hash % numSlots) * numCandidates;
  return Array.from({ length: numCandidates }, (_, index) => first + index);
}
