/** Bytes of the smallest bucket of gradients: what is smaller are numbers that ranks agree on. */
export const smallestBucket = 4096;
