import { type HostTensor, hostTensor } from '../../src/index.js';

/**
 * Makes a small training state whose bytes all depend on the iteration, so that tests detect a mix of two
 * states. Bytes below 127 make finite numbers.
 */
export function stateOfIteration(iteration: number, options: { readonly zero?: boolean } = {}): HostTensor[] {
  const fill = (length: number, salt: number): Uint8Array =>
    Uint8Array.from({ length }, (_, index) =>
      options.zero === true ? 0 : (iteration * 31 + index * 7 + salt) % 127,
    );
  return [
    hostTensor({ name: 'model.weight', dtype: 'F32', globalShape: [16, 8], memory: fill(512, 1) }),
    hostTensor({ name: 'model.bias', dtype: 'BF16', globalShape: [16], memory: fill(32, 2) }),
    hostTensor({ name: 'optimizer.weight', dtype: 'F32', globalShape: [16, 8], memory: fill(512, 3) }),
  ];
}

/**
 * Makes four shards' worth of state (4 MB), so that a save takes a few milliseconds in each of its phases.
 */
export function largeStateOfIteration(
  iteration: number,
  options: { readonly zero?: boolean } = {},
): HostTensor[] {
  const large = Array.from({ length: 4 }, (_, index) => {
    const memory = new Uint8Array(1_000_000).fill(options.zero === true ? 0 : (iteration * 5 + index) % 256);
    return hostTensor({ name: `large.${index}`, dtype: 'U8', globalShape: [1000, 1000], memory });
  });
  return [...large, ...stateOfIteration(iteration, options)];
}
