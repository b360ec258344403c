import type { PretrainingConfiguration } from '@mtl/configuration';
import { KernelError, MtlError } from '@mtl/errors';
import { type HostInformation, hostInformation } from '@mtl/kernels';
import type { TransformerConfiguration } from '@mtl/models';
import { formatBytes } from '@mtl/trainer';
import { findRecipe } from '../parts/models/find-recipe.js';
import type { RunPlanning } from './run-planning.js';

/** The number of bytes that a WebAssembly module can address with 32 bits. */
const mostBytes = 2 ** 32;

/** Returns a note for a run that uses the WebAssembly kernels; undefined for native kernels. */
export function noteOfWebAssembly({
  isWebAssembly,
  mostThreads,
  instructionSet,
}: Pick<HostInformation, 'isWebAssembly' | 'mostThreads' | 'instructionSet'>): string | undefined {
  if (!isWebAssembly) return undefined;
  const single = mostThreads === 1 ? 'without shared memory, with one thread and' : 'with';
  const relaxed =
    instructionSet === 'relaxed_simd' ? '; with relaxed SIMD, results differ from machine to machine' : '';
  return `  note: the kernels are WebAssembly, ${single} 4 GiB for tensors${relaxed}; native ones are several times as fast: mtl doctor says what to install`;
}

/**
 * Rejects a run that does not fit in the 4 GiB of WebAssembly, before it allocates anything.
 *
 * @throws the errors of `checkWebAssemblyMemory`
 */
export async function checkMemoryOfRun(
  configuration: PretrainingConfiguration,
  {
    model,
    planning,
  }: { readonly model: TransformerConfiguration; readonly planning?: RunPlanning | undefined },
): Promise<void> {
  const recipe = findRecipe(configuration);
  const numParameters = recipe.numParameters(model);
  const size: RunSize = {
    numParameters,
    numTrained: recipe.adapters.numParameters(configuration, model) ?? numParameters,
    numStates: configuration.optimizer.muon === undefined ? 2 : 1,
    peakBytes: planning && (() => planning.peakBytesOfRun(configuration, model)),
  };
  await checkWebAssemblyMemory(size, hostInformation());
}

/**
 * Rejects a run that does not fit in the 4 GiB of WebAssembly. First counts the weights, the gradients and
 * the optimizer's state, each in float32. If the run has a planner, also counts the peak memory of a step,
 * including activations.
 *
 * @throws KernelError MTL_OUT_OF_MEMORY, whose message contains the sizes
 */
export async function checkWebAssemblyMemory(
  { numParameters, numTrained, numStates, peakBytes }: RunSize,
  { isWebAssembly }: Pick<HostInformation, 'isWebAssembly'>,
): Promise<void> {
  if (!isWebAssembly) return;
  const kept = 4 * (numParameters + (1 + numStates) * numTrained);
  if (kept >= mostBytes) throw tooLarge(`weights, gradients and optimizer state take ${formatBytes(kept)}`);
  const whole = 'a step takes, with activations,';
  let peak: number | undefined;
  try {
    peak = await peakBytes?.();
  } catch (error) {
    if (!MtlError.isInstance(error) || error.code !== 'MTL_OUT_OF_MEMORY') throw error;
    throw tooLarge(`${whole} more (${formatBytes(kept)} without them)`);
  }
  if (peak !== undefined && peak >= mostBytes)
    throw tooLarge(`${whole} ${formatBytes(peak)} (${formatBytes(kept)} without them)`);
}

function tooLarge(what: string): KernelError {
  return new KernelError(
    'MTL_OUT_OF_MEMORY',
    `${what}, and the kernels are WebAssembly, which has ${formatBytes(mostBytes)}`,
    {
      remedy: 'take a smaller --micro-batch-size or model, or install native kernels (mtl doctor says how)',
      exitCode: 2,
    },
  );
}

/**
 * The counts that determine the memory of a training run. `numTrained` is the number of trained parameters.
 */
interface RunSize {
  readonly numParameters: number;
  readonly numTrained: number;
  /** How many values the optimizer keeps for each trained parameter: 2 for AdamW, 1 for Muon. */
  readonly numStates: number;
  /** Returns the peak memory of a step, in bytes; undefined for a run without a planner. */
  readonly peakBytes?: (() => Promise<number>) | undefined;
}
