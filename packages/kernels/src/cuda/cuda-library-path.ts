import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { KernelError } from '@mtl/errors';
import { packageDirectory } from '../native/load-addon.js';

const file = 'libmtl_cuda.so';

/** The version that packages have in the repository. No package with this version is in a registry. */
const unpublished = '0.0.0';

const readManifest = (path: string): { version: string } => JSON.parse(readFileSync(path, 'utf8'));

/**
 * Returns the path of the CUDA library: MTL_CUDA_LIBRARY, the local build, or the platform package
 * (`@mtl/kernels-cuda-linux-x64`), which must have the same version as @mtl/kernels. The first existing file
 * is returned, even if it cannot be loaded. `directory` is the folder of @mtl/kernels.
 *
 * @throws KernelError MTL_CUDA_LIBRARY if no library is found; the error names the tried places and the
 *   package to install
 */
export function cudaLibraryPath(directory = packageDirectory()): string {
  const explicit = process.env.MTL_CUDA_LIBRARY;
  if (explicit !== undefined) {
    if (existsSync(explicit)) return explicit;
    throw notFound(
      [explicit],
      'MTL_CUDA_LIBRARY names it: correct it, or unset it for the one that is installed',
    );
  }
  const local = join(directory, 'build', 'Cuda', file);
  if (existsSync(local)) return local;
  const { version } = readManifest(join(directory, 'package.json'));
  const name = `@mtl/kernels-cuda-${process.platform}-${process.arch}`;
  const found = findPlatformPackage({ directory, name, version });
  if ('path' in found) return found.path;
  throw notFound(
    [local, found.failure],
    version === unpublished
      ? `in the checkout npm run dev -- build:cuda (needs nvcc, from the CUDA toolkit 13); ${name} is not published yet`
      : `npm install ${name}@${version}; in a checkout npm run dev -- build:cuda (needs nvcc, from the CUDA toolkit 13)`,
  );
}

function notFound(tried: readonly string[], remedy: string): KernelError {
  return new KernelError('MTL_CUDA_LIBRARY', `CUDA library not found: ${tried.join(' or ')}`, {
    remedy,
    exitCode: 2,
  });
}

interface WantedPackage {
  readonly directory: string;
  readonly name: string;
  readonly version: string;
}

/**
 * Returns the library in the platform package that @mtl/kernels would import, or the reason why there is
 * none.
 */
function findPlatformPackage({
  directory,
  name,
  version,
}: WantedPackage): { path: string } | { failure: string } {
  const manifest = resolveManifest(directory, name);
  if (manifest === undefined) return { failure: `${name} (not installed)` };
  const { version: installed } = readManifest(manifest);
  if (installed !== version) return { failure: `${name} (version ${installed}, expected ${version})` };
  const path = join(dirname(manifest), file);
  return existsSync(path) ? { path } : { failure: `${path} (not built)` };
}

function resolveManifest(directory: string, name: string): string | undefined {
  const require = createRequire(join(directory, 'package.json'));
  try {
    const manifest = require.resolve(`${name}/package.json`);
    // Node.js caches the paths of packages, so the package may have been removed since
    return existsSync(manifest) ? manifest : undefined;
  } catch {
    return undefined;
  }
}
