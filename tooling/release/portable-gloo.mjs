import { join } from 'node:path';
import { buildLibrary } from './build-library.mjs';

/** Gloo's options: its TCP transport alone, without encryption. */
const options = ['REDIS', 'IBVERBS', 'NCCL', 'CUDA', 'MPI', 'LIBUV'].map((part) => `-DUSE_${part}=OFF`);

/** Gloo for the addon of @mtl/comm, with the options of its CMakeLists.txt that name it. */
export function portableGloo(directory) {
  const listOptions = () => options;
  // of 2025: the tests of @mtl/comm ran with this one and with Debian 12's
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
