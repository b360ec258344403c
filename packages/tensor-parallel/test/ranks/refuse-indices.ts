import type { World } from '@mtl/comm';
import { MtlError } from '@mtl/errors';
import { setNumThreads } from '@mtl/kernels';
import { runNetwork } from '../small-network.js';

/** Returns, for each of some wrong tokens and labels, the error of the network, or its loss (for label 7). */
export default function refuseIndices(
  { group }: World,
  wrong: ReadonlyArray<Parameters<typeof runNetwork>[1]>,
): readonly string[] {
  setNumThreads(1);
  return wrong.map((each) => {
    try {
      return `a loss of ${runNetwork({ group, sequenceParallel: false }, each).losses[7]}`;
    } catch (error) {
      if (!MtlError.isInstance(error)) throw error;
      return `${error.code}: ${error.message}`;
    }
  });
}
