import { UsageError } from '@mtl/errors';
import { addon, addonPath, callNative } from './native/addon.js';

/**
 * Instruction sets that the CPU kernels are compiled for, worst first. `avx512` includes bf16 dot products.
 */
export const instructionSets = ['plain', 'avx2', 'avx512'] as const;

export type InstructionSet = (typeof instructionSets)[number];

/** The processor, threads and libraries of the CPU backend. */
export interface HostInformation {
  readonly numThreads: number;
  /** The best instruction set of this machine. */
  readonly detectedInstructionSet: InstructionSet;
  /**
   * The instruction sets that the kernels were compiled for. In a checkout, `npm run gpt-train` compiles for
   * the machine's own instruction set.
   */
  readonly compiledInstructionSets: readonly InstructionSet[];
  /**
   * The instruction set that kernels are selected for: the best that is detected and compiled, unless
   * `setInstructionSet` lowered it.
   */
  readonly instructionSet: InstructionSet;
  /**
   * True if the processor multiplies matrices of bfloat16 in tiles (AMX); the kernels of `avx512` then use
   * tiles.
   */
  readonly hasAmx: boolean;
  /** The version of oneDNN; `none` in builds without oneDNN. */
  readonly onednnVersion: string;
  /** The file that the native addon was loaded from. */
  readonly addonPath: string;
}

export function hostInformation(): HostInformation {
  return callNative(() => ({ ...addon().host(), addonPath: addonPath() }));
}

/**
 * Sets the number of threads of all CPU kernels, including oneDNN's. With `pin` each thread except the
 * calling one stays on its core.
 */
export function setNumThreads(count: number, { pin = false }: { pin?: boolean } = {}): void {
  callNative(() => addon().setNumThreads(count, pin));
}

/**
 * Lowers the instruction set of our own CPU kernels (oneDNN chooses for itself), for tests and comparisons.
 */
export function setInstructionSet(name: InstructionSet): void {
  const level = instructionSets.indexOf(name);
  if (level < 0) throw new UsageError('MTL_ARGUMENT', `unknown instruction set ${name}`);
  callNative(() => addon().setInstructionSet(level));
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
