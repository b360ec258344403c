import { UsageError } from '@mtl/errors';
import { addon, addonOrigin, callNative } from './native/addon.js';

/** The name of an instruction set that CPU kernels exist for: `plain`, `avx2`, ... (`hostInformation`). */
export type InstructionSet = string;

/** The processor, threads and libraries of the CPU backend. */
export interface HostInformation {
  readonly numThreads: number;
  /** The preferred one of the instruction sets that this machine has. */
  readonly detectedInstructionSet: InstructionSet;
  /**
   * The instruction sets that the kernels were compiled for, the preferred one first. In a checkout, `npm run
   * gpt-train` compiles for the machine's own instruction set.
   */
  readonly compiledInstructionSets: readonly InstructionSet[];
  /** The compiled instruction sets that this machine has, the preferred one first. */
  readonly usableInstructionSets: readonly InstructionSet[];
  /**
   * The instruction set that kernels are selected for: the first of the usable ones, unless
   * `setInstructionSet` chose another.
   */
  readonly instructionSet: InstructionSet;
  /**
   * True if the kernels of `instructionSet` multiply bfloat16 with instructions of the processor, faster than
   * float32.
   */
  readonly multipliesBfloat16: boolean;
  /** The version of oneDNN; `none` in builds without oneDNN. */
  readonly onednnVersion: string;
  /** The file that the kernels were loaded from. */
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
 * Sets the number of threads of all CPU kernels, including oneDNN's. With `pin` each thread except the
 * calling one stays on its core.
 */
export function setNumThreads(count: number, { pin = false }: { pin?: boolean } = {}): void {
  callNative(() => addon().setNumThreads(count, pin));
}

/**
 * Selects the instruction set of our own CPU kernels (oneDNN chooses for itself), for tests and comparisons.
 *
 * @throws KernelError MTL_INSTRUCTION_SET if it is not among `usableInstructionSets`
 */
export function setInstructionSet(name: InstructionSet): void {
  callNative(() => addon().setInstructionSet(name));
}

/** The libraries for matmuls on CPUs: our kernels, oneDNN, or the faster one by measurement. */
const matmulLibraries = ['faster', 'own', 'oneDNN'] as const;

type MatmulLibrary = (typeof matmulLibraries)[number];

/**
 * Chooses the library of matmuls, `faster`, `own` or `oneDNN`, for tests and comparisons. The other library
 * computes the matmuls that the chosen one does not support.
 */
export function setMatmulLibrary(name: MatmulLibrary): void {
  const library = matmulLibraries.indexOf(name);
  if (library < 0) throw new UsageError('MTL_ARGUMENT', `unknown library of matmuls ${name}`);
  callNative(() => addon().setMatmulLibrary(library));
}
