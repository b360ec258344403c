import { hostTensor, type LogicalTensor } from '../../src/index.js';
import { stateOfIteration } from './state-of-iteration.js';

/** Four shards' worth of state (4 MB), so that a save takes a few milliseconds in each of its phases. */
export function largeStateOfIteration(
  iteration: number,
  options: { readonly zero?: boolean } = {},
): LogicalTensor[] {
  const large = Array.from({ length: 4 }, (_, index) => {
    const memory = new Uint8Array(1_000_000).fill(options.zero === true ? 0 : (iteration * 5 + index) % 256);
    return hostTensor({ name: `large.${index}`, dtype: 'U8', globalShape: [1000, 1000], memory });
  });
  return [...large, ...stateOfIteration(iteration, options)];
}
