import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { KernelError } from '@mtl/errors';
import { packageDirectory } from '../native/package-directory.js';

const name = 'libmtl_cuda.so';

/** The CUDA library that an installed platform package brings; undefined without one. */
function fromPlatformPackage(): string | undefined {
  const require = createRequire(import.meta.url);
  try {
    const manifest = require.resolve(`@mtl/kernels-${process.platform}-${process.arch}-cuda/package.json`);
    return join(dirname(manifest), name);
  } catch {
    return undefined;
  }
}

/**
 * The file of the CUDA library: MTL_CUDA_LIBRARY, else the local build, else the platform package.
 *
 * @throws KernelError MTL_CUDA_LIBRARY when there is none, with what was tried
 */
export function cudaLibraryPath(): string {
  const explicit = process.env.MTL_CUDA_LIBRARY;
  const candidates =
    explicit === undefined
      ? [join(packageDirectory(), 'build', 'Cuda', name), fromPlatformPackage()]
      : [explicit];
  const tried = candidates.filter((path) => path !== undefined);
  const found = tried.find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new KernelError('MTL_CUDA_LIBRARY', `CUDA library not found: ${tried.join(' or ')}`, {
    remedy:
      explicit === undefined
        ? 'build it: npm run build:cuda (needs nvcc, from the CUDA toolkit 13)'
        : 'MTL_CUDA_LIBRARY names it: correct it, or unset it for the one that this package builds',
    exitCode: 2,
  });
}
