import { join } from 'node:path';
import { buildLibrary } from './build-library.mjs';

/** The options for building Gloo: only its TCP transport, without encryption. */
const options = ['REDIS', 'IBVERBS', 'NCCL', 'CUDA', 'MPI', 'LIBUV'].map((part) => `-DUSE_${part}=OFF`);

/**
 * Builds Gloo for the addon of @mtl/comm. Also returns the options with which the addon's CMakeLists.txt
 * finds this build.
 */
export function portableGloo(directory) {
  const listOptions = () => options;
  // this version of Gloo is from 2025; the tests of @mtl/comm have run with this version and with the version
  // in Debian 12
  const { folder, prefix, version } = buildLibrary({
    name: 'gloo',
    directory,
    release: 'forky',
    listOptions,
  });
  return {
    name: 'Gloo',
    version,
    options,
    cmakeOptions: [`-DGloo_DIR=${join(prefix, 'share', 'cmake', 'Gloo')}`],
    licenses: { 'Gloo-LICENSE': join(folder, 'LICENSE') },
  };
}
