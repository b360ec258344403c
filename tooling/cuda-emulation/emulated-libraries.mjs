import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const build = fileURLToPath(new URL('../../packages/kernels/build', import.meta.url));
const library = join(build, 'Release/libmtl_cuda_emulated.so');
const cublasLt = join(build, 'Release/libcublaslt_emulated.so');
const folder = join(build, 'emulated');

/** The targets that `build-native.mjs --target` builds in @mtl/kernels for the emulation. */
export const emulatedTargets = ['mtl_cuda_emulated', 'cublaslt_emulated'];

/** The paths of the libraries that the emulated targets build. */
export const emulatedFiles = [library, cublasLt];

/**
 * Returns the environment variables that make a process use the emulation as device `cuda`; undefined if the
 * emulation is not built. Tests may write their own files to the folder in MTL_CUDA_LIBS.
 */
export function emulatedLibraries() {
  if (!existsSync(library) || !existsSync(cublasLt)) return undefined;
  mkdirSync(folder, { recursive: true });
  const named = join(folder, 'libcublasLt.so.13'); // the name that the loader looks for
  rmSync(named, { force: true }); // a process that has the old file open keeps it
  copyFileSync(cublasLt, named);
  return { MTL_CUDA_LIBRARY: library, MTL_CUDA_LIBS: folder };
}
