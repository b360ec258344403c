import { KernelError } from '@mtl/errors';
import type { HostInformation } from '@mtl/kernels';
import { formatBytes } from '@mtl/trainer';

/** The bytes that a module of WebAssembly can address: 32 bits. */
const mostBytes = 2 ** 32;

/** Returns a note for a run whose kernels are WebAssembly; undefined for native kernels. */
export function noteOfWebAssembly({
  isWebAssembly,
}: Pick<HostInformation, 'isWebAssembly'>): string | undefined {
  if (!isWebAssembly) return undefined;
  return '  note: the kernels are WebAssembly, with 4 GiB for tensors; native ones are several times as fast: mtl doctor says what to install';
}

/**
 * Rejects a run that does not fit into the 4 GiB of WebAssembly, before it starts. Only weights, gradients
 * and the optimizer state are counted, each in float32. Activations need additional memory.
 *
 * @throws KernelError MTL_OUT_OF_MEMORY with the numbers
 */
export function checkWebAssemblyMemory(
  { numParameters, numTrained, numStates }: RunSize,
  { isWebAssembly }: Pick<HostInformation, 'isWebAssembly'>,
): void {
  const bytes = 4 * (numParameters + (1 + numStates) * numTrained);
  if (!isWebAssembly || bytes < mostBytes) return;
  throw new KernelError(
    'MTL_OUT_OF_MEMORY',
    `weights, gradients and optimizer state take ${formatBytes(bytes)}, and the kernels are WebAssembly, which has ${formatBytes(mostBytes)}`,
    { remedy: 'train a smaller model, or install native kernels (mtl doctor says how)', exitCode: 2 },
  );
}

/** The numbers that a training run keeps from step to step. */
interface RunSize {
  readonly numParameters: number;
  readonly numTrained: number;
  /** The numbers that the optimizer keeps for each trained parameter: 2 for AdamW, 1 for Muon. */
  readonly numStates: number;
}
