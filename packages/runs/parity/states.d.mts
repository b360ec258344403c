/** Returns by step how far the state is from that of one process, and of which tensor. */
export function readStates(
  directory: string,
): readonly ({ readonly difference: number; readonly name: string } | undefined)[];
