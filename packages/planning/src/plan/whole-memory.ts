import type { LibraryMemory } from './library-memory.js';

interface Memory {
  readonly memoryBytes: number;
  readonly memoryOfLibraries?: LibraryMemory | undefined;
}

/** Bytes of a rank: those of the allocator and those that libraries take. */
export function wholeMemory({ memoryBytes, memoryOfLibraries }: Memory): number {
  const { matmulWorkspace = 0, communicators = 0 } = memoryOfLibraries ?? {};
  return memoryBytes + matmulWorkspace + communicators;
}
