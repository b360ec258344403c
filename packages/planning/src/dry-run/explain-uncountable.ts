import { KernelError, MtlError } from '@mtl/errors';
import { type HostInformation, hostInformation } from '@mtl/kernels';

/**
 * Explains why a rank's dry run failed with the WebAssembly kernels: their device `meta` counts memory only
 * up to 4 GiB. Returns all other errors unchanged.
 */
export function explainUncountable(
  error: unknown,
  { rank, numParameters }: { readonly rank: number; readonly numParameters: number },
  { isWebAssembly }: Pick<HostInformation, 'isWebAssembly'> = hostInformation(),
): unknown {
  if (!isWebAssembly || !MtlError.isInstance(error) || error.code !== 'MTL_OUT_OF_MEMORY') return error;
  return new KernelError(
    'MTL_OUT_OF_MEMORY',
    `rank ${rank}, with ${numParameters.toLocaleString('en')} parameters, takes more than the 4 GiB of memory that kernels as WebAssembly count`,
    {
      remedy:
        'plan with native kernels (mtl doctor says how to get them); or plan more ranks, each with a smaller part of the model, or with a smaller --micro-batch-size',
      exitCode: 2,
      details: error.details,
      cause: error,
    },
  );
}
