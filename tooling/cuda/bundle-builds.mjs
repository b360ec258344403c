/**
 * Returns the build folder of the CUDA library in @mtl/kernels: for all architectures, or for one, such as
 * `90a`.
 */
export const cudaBuildFolder = (architecture) =>
  architecture === undefined ? 'build/Cuda' : `build/Cuda-${architecture}`;

/**
 * The build folder of a bundle's addon in @mtl/kernels. The addon is built without oneDNN: the library of
 * oneDNN is as large as half of Node, and a GPU does not use it.
 */
export const kernelsBuildFolder = 'build/Bundle';
export const kernelsBuildArguments = ['--build-dir', kernelsBuildFolder, '-DMTL_ONEDNN=OFF'];

/** Returns the arguments of build-native.mjs with which the CUDA library is compiled. */
export const cudaBuildArguments = (architecture) => [
  ...['--build-dir', cudaBuildFolder(architecture), '-DMTL_CUDA=ON'],
  ...(architecture === undefined ? [] : [`-DMTL_CUDA_ARCHITECTURES=${architecture}-real`]),
];
