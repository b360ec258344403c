/**
 * Assigns chunks to ranks in rounds: chunk c is on rank c mod p, so that the last rank sends to the first
 * (Narayanan et al. 2021, section 2.2). With one chunk per rank: the plain pipeline.
 */
export function loopedPlacement(options: {
  readonly numStages: number;
  readonly numChunks: number;
}): readonly number[] {
  const { numStages, numChunks } = options;
  return Array.from({ length: numStages * numChunks }, (_, chunk) => chunk % numStages);
}
