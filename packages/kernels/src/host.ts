import { UsageError } from '@mtl/errors';
import { addon, addonOrigin, callNative } from './native/addon.js';

/**
 * The name of an instruction set for which CPU kernels exist, such as `plain` or `avx2` (see
 * `hostInformation`).
 */
export type InstructionSet = string;

/** The processor, threads and libraries of the CPU backend. */
export interface HostInformation {
  readonly numThreads: number;
  /** The most threads that `setNumThreads` accepts: 1 for WebAssembly without shared memory. */
  readonly mostThreads: number;
  /** The preferred instruction set among the sets of this machine. */
  readonly detectedInstructionSet: InstructionSet;
  /**
   * The instruction sets for which the kernels were compiled, in order of preference. In a checkout, `npm run
   * gpt-train` compiles for the machine's own instruction set.
   */
  readonly compiledInstructionSets: readonly InstructionSet[];
  /** The compiled instruction sets that this machine supports, in order of preference. */
  readonly usableInstructionSets: readonly InstructionSet[];
  /**
   * The instruction set whose kernels are used: the first usable set, unless `setInstructionSet` has selected
   * a different one.
   */
  readonly instructionSet: InstructionSet;
  /**
   * True if the kernels of `instructionSet` multiply bfloat16 with special processor instructions, which are
   * faster than float32.
   */
  readonly multipliesBfloat16: boolean;
  /** The version of oneDNN, or `none` if the build does not contain oneDNN. */
  readonly onednnVersion: string;
  /** The file from which the kernels were loaded. */
  readonly addonPath: string;
  /** True if the kernels are WebAssembly, false if they are native. */
  readonly isWebAssembly: boolean;
}

export function hostInformation(): HostInformation {
  return callNative(() => {
    const { path, isWebAssembly } = addonOrigin();
    return { ...addon().host(), addonPath: path, isWebAssembly };
  });
}

/**
 * Sets the number of threads that all CPU kernels and oneDNN use. If `pin` is true, each thread except the
 * calling thread stays on its own core.
 */
export function setNumThreads(count: number, { pin = false }: { pin?: boolean } = {}): void {
  callNative(() => addon().setNumThreads(count, pin));
}

/**
 * Selects the instruction set for this package's own CPU kernels, for tests and comparisons. oneDNN chooses
 * its instruction set independently.
 *
 * @throws KernelError MTL_INSTRUCTION_SET if the set is not in `usableInstructionSets`
 */
export function setInstructionSet(name: InstructionSet): void {
  callNative(() => addon().setInstructionSet(name));
}

/**
 * The libraries for matmuls on CPUs: `own` (this package's kernels), `oneDNN`, or `faster` (for each matmul,
 * the library that was measured to be faster).
 */
const matmulLibraries = ['faster', 'own', 'oneDNN'] as const;

type MatmulLibrary = (typeof matmulLibraries)[number];

/**
 * Chooses the library for matmuls, for tests and comparisons. If the chosen library does not support a
 * matmul, the library that was not chosen computes it.
 */
export function setMatmulLibrary(name: MatmulLibrary): void {
  const library = matmulLibraries.indexOf(name);
  if (library < 0) throw new UsageError('MTL_ARGUMENT', `unknown library of matmuls ${name}`);
  callNative(() => addon().setMatmulLibrary(library));
}
