/**
 * Returns the build folder of the CUDA library in @mtl/kernels, for all architectures or for only one, such
 * as `90a`.
 */
export const cudaBuildFolder = (architecture) =>
  architecture === undefined ? 'build/Cuda' : `build/Cuda-${architecture}`;

/**
 * The build folder of a bundle's addon in @mtl/kernels. The addon is built without oneDNN, because oneDNN's
 * library is half as large as Node, and a GPU does not use it.
 */
export const kernelsBuildFolder = 'build/Bundle';
export const kernelsBuildArguments = ['--build-dir', kernelsBuildFolder, '-DMTL_ONEDNN=OFF'];

/** Returns the arguments with which build-native.mjs compiles the CUDA library. */
export const cudaBuildArguments = (architecture) => [
  ...['--build-dir', cudaBuildFolder(architecture), '-DMTL_CUDA=ON'],
  ...(architecture === undefined ? [] : [`-DMTL_CUDA_ARCHITECTURES=${architecture}-real`]),
];
